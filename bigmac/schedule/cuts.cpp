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
  double longest = Durations(step, costs).longest_backbone();
  for (auto* list : {&costs.forward, &costs.backward})
    for (double& cost : *list) cost = longest > 0 ? std::max(cost / longest, kLeastDuration) : 1;
  costs.latency = longest > 0 ? std::min(costs.latency / longest, kMostLatency) : 0;
  return costs;
}

}  // namespace

Cuts::Cuts(const Schedule& base, const Costs& nominal)
    : base_(base),
      ids_(base.step),
      durations_(base.step, measurable(base.step, nominal)),
      positions_(ids_.encoder) {
  for (int rank = 0; rank < base.ranks(); ++rank) {
    auto row = base.row(rank);
    for (size_t p = 0; p < row.size(); ++p) positions_[ids_.of(rank, row[p])] = int32_t(p);
  }
  run_table(base, durations_, durations_.latency(), ends_, [](int, const Operator&, double, double) {});
}

double Cuts::first_forward(int64_t unit) const {
  int64_t m = unit * base_.step.ranks;
  return ends_[ids_.forward_of(0, m)] - durations_(0, backbone_forward(0, int(m)));
}

double Cuts::last_forward_ends(int64_t unit) const {
  return ends_[ids_.forward_of(ids_.stages - 1, last(unit))];
}

double Cuts::last_backward_ends(int64_t unit) const {
  return ends_[ids_.backward_of(0, last(unit))];
}

bool Cuts::before_first_forward(const Cut& cut, int64_t unit) const {
  return cut[0] <= positions_[ids_.forward_of(0, unit * base_.step.ranks)];
}

Cut Cuts::before_first_backward(Cut cut, int64_t unit) const {
  int64_t first = positions_[ids_.backward_of(ids_.stages - 1, unit * base_.step.ranks)];
  cut.back() = std::min(cut.back(), first);
  return shrunk(std::move(cut));
}

// Costs such as 0.1 do not add up exactly, so t is taken a rounding error earlier; a cut is consistent for
// any t.
Cut Cuts::at(double t) const {
  double moment = std::isfinite(t) ? t - std::min(std::abs(t) * 1e-10, kLeastDuration / 2) : t;
  Cut cut(base_.step.ranks);
  for (int rank = 0; rank < base_.ranks(); ++rank) {
    auto row = base_.row(rank);
    int64_t low = 0, high = int64_t(row.size());
    while (low < high) {
      int64_t middle = (low + high) / 2;
      if (start(rank, row, middle) < moment)
        low = middle + 1;
      else
        high = middle;
    }
    cut[rank] = low;
  }
  return cut;
}

double Cuts::start(int rank, std::span<const Operator> row, int64_t position) const {
  double ready = inputs_ready(base_.step, ids_, rank, row[position], ends_, durations_.latency());
  return position == 0 ? ready : std::max(ready, ends_[ids_.of(rank, row[position - 1])]);
}

Cut Cuts::grown(Cut cut) const {
  for (bool moved = true; moved;) {
    moved = false;
    for (int rank = 0; rank < base_.ranks(); ++rank)
      for_each_need(rank, cut[rank], [&](int64_t, int other, int64_t count) {
        moved |= cut[other] < count;
        cut[other] = std::max(cut[other], count);
      });
  }
  return cut;
}

Cut Cuts::shrunk(Cut cut) const {
  for (bool moved = true; moved;) {
    moved = false;
    for (int rank = 0; rank < base_.ranks(); ++rank) {
      int64_t keep = cut[rank];
      for_each_need(rank, cut[rank], [&](int64_t at, int other, int64_t count) {
        if (cut[other] < count) keep = std::min(keep, at);
      });
      moved |= keep < cut[rank];
      cut[rank] = keep;
    }
  }
  return cut;
}

// What the first `count` operators of a row need to have run on other ranks: calls need(at, rank, count), the
// operator at position `at` needs the first `count` of that rank. Messages in one direction are taken in the
// order in which they are sent, so the last one of each phase speaks for those before it.
template <class Need>
void Cuts::for_each_need(int rank, int64_t count, Need&& need) const {
  auto row = base_.row(rank);
  for (Phase phase : {Phase::forward, Phase::backward}) {
    bool found = false;
    for (int64_t p = count - 1; p >= 0 && !found; --p) {
      if (row[p].phase != phase) continue;
      for_each_predecessor(base_.step, ids_, rank, row[p], [&](int64_t id, int from) {
        if (from == rank) return;
        found = true;
        need(p, from, positions_[id] + 1);
      });
    }
    found = false;
    for (int64_t p = count - 2; p >= 0 && !found; --p) {
      if (row[p].phase != phase) continue;
      for_each_receiver(base_.step, ids_, rank, row[p], [&](int64_t id, int to) {
        if (to == rank) return;
        found = true;
        need(p + 1, to, receive_posted_after(base_.step, to, base_.row(to), positions_[id]));
      });
    }
  }
}

}  // namespace bigmac
