#include "bigmac/schedule/cuts.h"

#include <algorithm>
#include <cmath>

#include "bigmac/schedule/sends.h"
#include "bigmac/schedule/timing.h"

namespace bigmac {
namespace {

constexpr double kLeastDuration = 1e-3;
constexpr double kMostLatency = 1e6;

// Costs in units of the longest backbone operator. A cut tells apart only operators that take time, so each
// takes a thousandth of that at least, and a message so many at most that the thousandth is not lost to
// rounding.
Costs measurable(const Step& step, Costs costs) {
  costs.modules.clear();
  double longest = Durations(step, {}, costs).longest_backbone();
  for (auto* list : {&costs.forward, &costs.backward, &costs.weight})
    for (double& cost : *list) cost = longest > 0 ? cost / longest : 1;
  for (double& cost : costs.forward) cost = std::max(cost, kLeastDuration);
  for (double& cost : costs.backward) cost = std::max(cost, 2 * kLeastDuration);
  auto& weight = costs.weight;
  for (size_t s = 0; s < weight.size(); ++s) {
    double whole = *std::min_element(costs.backward.begin(), costs.backward.end());
    if (costs.backward.size() == weight.size()) whole = costs.backward[s];
    weight[s] = std::clamp(weight[s], kLeastDuration, whole - kLeastDuration);
  }
  costs.latency = longest > 0 ? std::min(costs.latency / longest, kMostLatency) : 0;
  return costs;
}

}  // namespace

Cuts::Cuts(const Schedule& base, const Costs& nominal)
    : base_(base),
      dependencies_(base),
      durations_(base, measurable(base.step, nominal)),
      positions_(dependencies_.count(), -1),
      starts_(base.operators.size()) {
  for (int rank = 0; rank < base.ranks(); ++rank) {
    auto row = base.row(rank);
    for (size_t p = 0; p < row.size(); ++p) positions_[dependencies_.of(rank, row[p])] = int32_t(p);
  }
  auto next = base.row_begin;
  run_table(base, dependencies_, durations_, durations_.latency(), ends_,
            [&](int rank, const Operator&, double start, double) { starts_[next[rank]++] = start; });
  find_needs();
}

double Cuts::first_forward_starts(int64_t first, int64_t last) const {
  double time = kBehindAll;
  int rank = dependencies_.rank_of(0);
  for (int64_t m = first; m < last; ++m)
    time = std::min(time, starts_[base_.row_begin[rank] + positions_[dependencies_.forward_of(0, m)]]);
  return time;
}

double Cuts::last_forward_ends(int64_t first, int64_t last) const {
  double time = kBeforeAll;
  for (int64_t m = first; m < last; ++m)
    time = std::max(time, ends_[dependencies_.forward_of(dependencies_.stages() - 1, m)]);
  return time;
}

double Cuts::last_backward_ends(int64_t first, int64_t last) const {
  double time = kBeforeAll;
  for (int64_t m = first; m < last; ++m) time = std::max(time, ends_[dependencies_.backward_of(0, m)]);
  return time;
}

bool Cuts::before_first_forward(const Cut& cut, int64_t first, int64_t last) const {
  for (int64_t m = first; m < last; ++m)
    if (cut[dependencies_.rank_of(0)] > positions_[dependencies_.forward_of(0, m)]) return false;
  return true;
}

bool Cuts::is_before_first_backward(const Cut& cut, int64_t first, int64_t last) const {
  int64_t stage = dependencies_.stages() - 1;
  for (int64_t m = first; m < last; ++m)
    if (cut[dependencies_.rank_of(stage)] > positions_[dependencies_.backward_of(stage, m)]) return false;
  return true;
}

Cut Cuts::before_first_backward(Cut cut, int64_t first, int64_t last) const {
  int64_t stage = dependencies_.stages() - 1;
  auto& place = cut[dependencies_.rank_of(stage)];
  for (int64_t m = first; m < last; ++m)
    place = std::min<int64_t>(place, positions_[dependencies_.backward_of(stage, m)]);
  return shrunk(std::move(cut));
}

// Costs such as 0.1 do not add up exactly, so t is taken a rounding error earlier; a cut is consistent for
// any t.
Cut Cuts::at(double t) const {
  double moment = std::isfinite(t) ? t - std::min(std::abs(t) * 1e-10, kLeastDuration / 2) : t;
  Cut cut;
  for (int rank = 0; rank < base_.ranks(); ++rank) {
    auto begin = starts_.begin() + base_.row_begin[rank], end = starts_.begin() + base_.row_begin[rank + 1];
    cut.push_back(std::lower_bound(begin, end, moment) - begin);
  }
  return cut;
}

Cut Cuts::grown(Cut cut) const {
  for (bool moved = true; moved;) {
    moved = false;
    for (int rank = 0; rank < base_.ranks(); ++rank)
      for (const auto& [other, need] : neighbours_[rank]) {
        moved |= cut[other] < need[cut[rank]];
        cut[other] = std::max<int64_t>(cut[other], need[cut[rank]]);
      }
  }
  return cut;
}

Cut Cuts::shrunk(Cut cut) const {
  for (bool moved = true; moved;) {
    moved = false;
    for (int rank = 0; rank < base_.ranks(); ++rank)
      for (const auto& [other, need] : neighbours_[rank]) {
        if (need[cut[rank]] <= cut[other]) continue;
        cut[rank] = std::upper_bound(need.begin(), need.begin() + cut[rank], cut[other]) - need.begin() - 1;
        moved = true;
      }
  }
  return cut;
}

void Cuts::find_needs() {
  auto posted_after = receives_posted_after(base_);
  neighbours_.resize(base_.ranks());
  for (int rank = 0; rank < base_.ranks(); ++rank) {
    auto row = base_.row(rank);
    auto need = [&](size_t position, int other, int64_t count) {
      auto& list = neighbours_[rank];
      auto found = std::find_if(list.begin(), list.end(), [&](const auto& n) { return n.rank == other; });
      if (found == list.end()) found = list.insert(found, {other, std::vector<int32_t>(row.size() + 1, 0)});
      auto& value = found->need[position + 1];
      value = std::max(value, int32_t(count));
    };
    for (size_t p = 0; p < row.size(); ++p) {
      dependencies_.for_each_predecessor(rank, row[p], [&](int64_t id, int from) {
        if (from != rank) need(p, from, positions_[id] + 1);
      });
      // The next operator starts when the receive of what this one sends stands posted.
      if (p + 1 < row.size())
        dependencies_.for_each_receiver(rank, row[p], [&](int64_t id, int to) {
          if (to != rank) need(p + 1, to, posted_after[base_.row_begin[to] + positions_[id]]);
        });
    }
    for (auto& neighbour : neighbours_[rank])
      for (size_t p = 1; p < neighbour.need.size(); ++p)
        neighbour.need[p] = std::max(neighbour.need[p], neighbour.need[p - 1]);
  }
}

}  // namespace bigmac
