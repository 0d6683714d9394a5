#include "bigmac/simulate/memory.h"

#include <map>

#include "bigmac/common/error.h"
#include "bigmac/simulate/memory_scan.h"

namespace bigmac {
namespace {

// Sums of the same bytes may differ in their last digits.
constexpr double kSameBytes = 1e-12;

void check_rank(const Schedule& schedule, int rank) {
  if (rank < 0 || rank >= schedule.ranks())
    throw InvalidInput(
        concat("[memory] there is no rank ", rank, "; the step has 0 to ", schedule.ranks() - 1));
}

std::optional<Operator> running_at(const std::vector<Slice>& row, double time) {
  auto next = std::upper_bound(row.begin(), row.end(), time,
                               [](double at, const Slice& slice) { return at < slice.start; });
  if (next == row.begin() || (next - 1)->end <= time) return std::nullopt;
  return (next - 1)->op;
}

std::string name_of(const Schedule& schedule, Held held, int64_t which, int64_t count) {
  auto counted = [&](const char* one) {
    return concat(" (", count, " ", one, count == 1 ? "" : one[0] == 'm' ? "es" : "s", ")");
  };
  auto module = [&]() -> const NestedModule& { return schedule.step.modules[size_t(which)]; };
  auto handed = [&] { return module().kind == Module::generator ? " input" : " output"; };
  switch (held) {
    case Held::activations:
      return concat("activations of stage ", which, counted("microbatch"));
    case Held::recomputed:
      return concat("recomputed activations of stage ", which);
    case Held::forward_work:
      return concat("forward workspace of stage ", which);
    case Held::received:
      return concat("received activations of stage ", which, counted("microbatch"));
    case Held::received_back:
      return concat("received gradients of stage ", which, counted("microbatch"));
    case Held::item:
      return concat(module().name, " activations", counted("item"));
    case Held::item_recomputed:
      return concat("recomputed activations of ", module().name);
    case Held::item_out:
      return concat(module().name, handed(), "s");
    case Held::item_back:
      return concat(module().name, handed(), " gradients");
  }
  return "";
}

}  // namespace

std::vector<RankMemory> peak_memory(const Schedule& schedule, const Timeline& timeline, const Bytes& bytes) {
  Holdings holdings(schedule, timeline, bytes);
  MemoryScan scan(holdings);
  std::vector<RankMemory> ranks;
  for (int rank = 0; rank < schedule.ranks(); ++rank) {
    RankMemory memory{holdings.constant(rank), holdings.constant(rank), timeline.start, std::nullopt};
    scan.run(rank, [&](double time, double held) {
      if (held <= memory.peak * (1 + kSameBytes)) return;
      memory.peak = held;
      memory.peak_time = time;
    });
    memory.at = running_at(holdings.row(rank), memory.peak_time);
    ranks.push_back(memory);
  }
  return ranks;
}

std::vector<MemoryPoint> memory_over_time(const Schedule& schedule, const Timeline& timeline,
                                          const Bytes& bytes, int rank) {
  check_rank(schedule, rank);
  Holdings holdings(schedule, timeline, bytes);
  std::vector<MemoryPoint> points;
  MemoryScan(holdings).run(rank, [&](double time, double held) {
    if (points.empty() || points.back().bytes != held) points.push_back({time, held});
  });
  return points;
}

std::vector<Holder> holders_at(const Schedule& schedule, const Timeline& timeline, const Bytes& bytes,
                               int rank, double time) {
  check_rank(schedule, rank);
  Holdings holdings(schedule, timeline, bytes);
  struct Sum {
    double bytes = 0;
    int64_t count = 0;
  };
  std::map<std::pair<Held, int64_t>, Sum> sums;
  const auto& row = holdings.row(rank);
  for (const auto& [op, start, end] : row) {
    if (end <= time) continue;
    auto add = [&](Held held, int64_t which, double held_bytes, int64_t count) {
      auto& sum = sums[{held, which}];
      sum.bytes += held_bytes;
      sum.count += count;
    };
    holdings.let_go(
        rank, op,
        [&](Held held, int64_t which, double held_bytes, int64_t count, int64_t id) {
          if (row[holdings.position_of(id)].start <= time) add(held, which, held_bytes, count);
        },
        [&](Held held, int64_t which, double held_bytes, int64_t count, int64_t id) {
          if (holdings.end_of(id) <= time) add(held, which, held_bytes, count);
        });
  }
  std::vector<Holder> holders;
  if (!bytes.constant.empty())
    for (const auto& holder : bytes.constant[bytes.constant.size() == 1 ? 0 : size_t(rank)])
      if (holder.bytes > 0) holders.push_back(holder);
  for (const auto& [key, sum] : sums)
    holders.push_back({name_of(schedule, key.first, key.second, sum.count), sum.bytes});
  std::stable_sort(holders.begin(), holders.end(),
                   [](const Holder& a, const Holder& b) { return a.bytes > b.bytes; });
  return holders;
}

}  // namespace bigmac
