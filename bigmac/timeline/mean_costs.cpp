#include "bigmac/timeline/mean_costs.h"

#include <algorithm>
#include <bit>
#include <unordered_map>

namespace bigmac {
namespace {

struct Mean {
  double sum = 0;
  double count = 0;

  void add(double value, double size = 1) {
    sum += value;
    count += size;
  }
  double value() const { return count == 0 ? 0 : sum / count; }
};

}  // namespace

Costs mean_costs(const Schedule& schedule, const Timeline& timeline) {
  const Step& step = schedule.step;
  Dependencies dependencies(schedule);
  std::vector<Mean> by_phase[4];  // of the backbone, by stage
  for (auto& means : by_phase) means.resize(size_t(step.stages()));
  struct ModuleMeans {
    Mean forward, backward;
  };
  std::vector<ModuleMeans> modules(step.modules.size());
  for (int rank = 0; rank < int(timeline.rows.size()); ++rank)
    for (const auto& [op, start, end] : timeline.rows[rank].operators) {
      if (op.module == Module::backbone) {
        by_phase[size_t(op.phase)].at(dependencies.stage(rank, op.chunk)).add(end - start);
        continue;
      }
      const Share& share = schedule.shares.list.at(op.index);
      auto& means = modules.at(share.module);
      (op.phase == Phase::backward ? means.backward : means.forward)
          .add(end - start, size_of(schedule, share));
    }
  Costs costs{.forward = {}, .backward = {}, .weight = {}, .modules = {}};
  for (int64_t s = 0; s < step.stages(); ++s) {
    auto mean = [&](Phase phase) { return by_phase[size_t(phase)][s]; };
    double split = mean(Phase::input).value() + mean(Phase::weight).value();
    bool whole = mean(Phase::backward).count > 0;
    costs.forward.push_back(mean(Phase::forward).value());
    costs.backward.push_back(whole ? mean(Phase::backward).value() : split);
    // Where a stage has both kinds of backward, a whole one may take less than the parts.
    double weight =
        split > 0 ? mean(Phase::weight).value() / split * costs.backward.back() : costs.backward.back() / 2;
    costs.weight.push_back(weight);
  }
  for (const auto& means : modules) costs.modules.push_back({means.forward.value(), means.backward.value()});
  return costs;
}

namespace {

// Whether the row's last interval is the exchange that ends the step on all ranks.
bool ends_with_exchange(const Timeline::Row& row) {
  if (row.intervals.empty() || row.operators.empty()) return false;
  const auto& last = row.intervals.back();
  return last.spent == Spent::transfer && last.peer < 0 && last.start >= row.operators.back().end;
}

}  // namespace

Timeline with_transfers(const Timeline& timeline) {
  Timeline longer{timeline.start, timeline.end, {}};
  // What a rank spends in the last exchange before all have come is waiting.
  double all_came = timeline.start;
  for (const auto& row : timeline.rows)
    if (ends_with_exchange(row)) all_came = std::max(all_came, row.intervals.back().start);
  auto key = [](const Operator& op) { return std::bit_cast<uint64_t>(op); };
  for (const auto& row : timeline.rows) {
    std::unordered_map<uint64_t, double> moved;
    const auto* exchange = ends_with_exchange(row) ? &row.intervals.back() : nullptr;
    for (const auto& interval : row.intervals) {
      if (interval.spent != Spent::transfer) continue;
      double start = &interval == exchange ? std::max(interval.start, all_came) : interval.start;
      moved[key(interval.op)] += std::max(0.0, interval.end - start);
    }
    auto& slices = longer.rows.emplace_back().operators = row.operators;
    for (auto& slice : slices)
      if (auto found = moved.find(key(slice.op)); found != moved.end()) slice.end += found->second;
  }
  return longer;
}

}  // namespace bigmac
