#include "bigmac/analysis/peaks.h"

#include <algorithm>

namespace bigmac {
namespace {

// What a rank holds along its row, and the most so far.
struct Held {
  int64_t in_flight = 0, most_in_flight = 0;
  std::vector<int64_t> items, most_items;
};

void take(const Schedule& schedule, const Operator& op, Held& held) {
  if (op.module == Module::backbone) {
    bool forward = op.phase == Phase::forward;
    bool frees = frees_activations(op.phase);
    held.in_flight += forward ? 1 : frees ? -1 : 0;
    held.most_in_flight = std::max(held.most_in_flight, held.in_flight);
    return;
  }
  const Share& share = schedule.shares.list[op.index];
  auto& items = held.items[size_t(share.module)];
  auto& most = held.most_items[size_t(share.module)];
  items += op.phase == Phase::backward ? -int64_t(share.count) : int64_t(share.count);
  most = std::max(most, items);
  if (!schedule.module_of(share).runs(Phase::backward)) items -= int64_t(share.count);  // kept while it runs
}

MemoryPeak peak_of(const Recording& recording, int rank) {
  const auto& curve = recording.memory[size_t(rank)];
  const auto& modules = recording.schedule.step.modules;
  MemoryPeak peak{.rank = rank};
  if (curve.bytes.empty()) return peak;
  auto at = size_t(std::max_element(curve.bytes.begin(), curve.bytes.end()) - curve.bytes.begin());
  peak.bytes = curve.bytes[at];
  bool is_curve = curve.bytes.size() > 1;
  if (is_curve) peak.time = curve.times[at] - recording.timeline.start;
  Held held{.items = std::vector<int64_t>(modules.size(), 0),
            .most_items = std::vector<int64_t>(modules.size(), 0)};
  peak.at = is_curve ? "between operators" : "";
  for (const auto& [op, start, end] : recording.timeline.rows[size_t(rank)].operators) {
    if (is_curve && start > curve.times[at]) break;
    bool runs = is_curve && curve.times[at] < end;
    // What a backward frees it holds until it has ended.
    if (runs) peak.at = describe(recording.schedule, op);
    if (runs && (frees_activations(op.phase))) break;
    take(recording.schedule, op, held);
  }
  peak.in_flight = is_curve ? held.in_flight : held.most_in_flight;
  for (size_t n = 0; n < modules.size(); ++n)
    if (int64_t count = is_curve ? held.items[n] : held.most_items[n]; count > 0)
      peak.items.push_back({modules[n].name, count});
  return peak;
}

}  // namespace

std::vector<MemoryPeak> memory_peaks(const Recording& recording) {
  std::vector<MemoryPeak> peaks;
  peaks.reserve(recording.memory.size());
  for (int rank = 0; rank < int(recording.memory.size()); ++rank) peaks.push_back(peak_of(recording, rank));
  return peaks;
}

}  // namespace bigmac
