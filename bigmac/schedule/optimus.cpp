#include "bigmac/schedule/optimus.h"

#include <algorithm>
#include <limits>
#include <list>

#include "bigmac/schedule/base.h"
#include "bigmac/schedule/spread.h"
#include "bigmac/schedule/timing.h"

namespace bigmac {
namespace {

// How much of the backwards that the bubbles' items bring a rank counts against giving it more items: the
// best of these is taken.
constexpr double kBackwardWeights[] = {0, 0.5, 1};

constexpr int kCandidates =
    16;  // items looked at for one bubble that do not fit, before the next bubble's turn

struct Gap {
  int rank;
  int64_t position;  // in front of this operator of the row
  double from, until;
};

// Free time of each rank between its first moment and its last operator.
struct Bubbles {
  std::vector<Gap> gaps;
  std::vector<double> first_forward, last_backward;  // of stage 0, by microbatch
};

Bubbles find_bubbles(const Schedule& base, const Costs& nominal) {
  Costs costs = nominal;
  costs.modules.clear();
  Dependencies dependencies(base);
  Durations durations(base, costs);
  Bubbles found;
  found.first_forward.resize(size_t(base.step.microbatches));
  found.last_backward.resize(size_t(base.step.microbatches));
  std::vector<int64_t> next(base.ranks(), 0);
  std::vector<double> ends, free_at(base.ranks(), 0);
  run_table(base, dependencies, durations, durations.latency(), ends,
            [&](int rank, const Operator& op, double start, double end) {
              if (start > free_at[rank]) found.gaps.push_back({rank, next[rank], free_at[rank], start});
              free_at[rank] = end;
              ++next[rank];
              if (dependencies.stage(rank, op.chunk) != 0) return;
              if (op.phase == Phase::forward) found.first_forward[op.index] = start;
              if (gives_input_gradient(op.phase)) found.last_backward[op.index] = end;
            });
  std::sort(found.gaps.begin(), found.gaps.end(),
            [](const Gap& a, const Gap& b) { return a.from != b.from ? a.from < b.from : a.rank < b.rank; });
  return found;
}

// An encoder's item as a share of its own, and where its operators go: kOutside is before or behind all.
struct Placed {
  static constexpr int64_t kOutside = -1;
  uint32_t microbatch;
  double forward, backward;
  int32_t rank = -1;
  int64_t forward_at = kOutside, backward_at = kOutside;
};

class Filler {
 public:
  Filler(const Step& step, const Bubbles& bubbles, double latency, double weight, std::vector<Placed>& items)
      : step_(step),
        bubbles_(bubbles),
        latency_(latency),
        weight_(weight),
        items_(items),
        gaps_(bubbles.gaps) {}

  // The latest bubbles first, each with the items that are needed last: earlier bubbles can take any of those
  // that are left.
  void place_forwards() {
    int root = rank_of_stage(step_, 0);
    std::vector<uint32_t> order(items_.size());
    for (uint32_t i = 0; i < order.size(); ++i) order[i] = i;
    std::stable_sort(order.begin(), order.end(),
                     [&](uint32_t a, uint32_t b) { return deadline(a) > deadline(b); });
    std::list<uint32_t> left(order.begin(), order.end());
    for (auto gap = gaps_.rbegin(); gap != gaps_.rend(); ++gap) {
      double travel = gap->rank == root ? 0 : latency_;
      int tries = 0;
      for (auto i = left.begin(); i != left.end() && tries < kCandidates;) {
        if (deadline(*i) - travel <= gap->from) break;
        double end = gap->from + items_[*i].forward;
        if (end > std::min(gap->until, deadline(*i) - travel)) {
          ++tries;
          ++i;
          continue;
        }
        items_[*i].rank = gap->rank;
        items_[*i].forward_at = gap->position;
        gap->from = end;
        i = left.erase(i);
      }
    }
    spread_the_rest(left);
  }

  void place_backwards() {
    int root = rank_of_stage(step_, 0);
    std::vector<std::vector<uint32_t>> by_rank(step_.ranks);
    for (uint32_t i = 0; i < items_.size(); ++i) by_rank[items_[i].rank].push_back(i);
    std::vector<std::list<uint32_t>> left;
    for (auto& list : by_rank) {
      std::stable_sort(list.begin(), list.end(),
                       [&](uint32_t a, uint32_t b) { return gradient(a) < gradient(b); });
      left.emplace_back(list.begin(), list.end());
    }
    for (auto& gap : gaps_) {
      double travel = gap.rank == root ? 0 : latency_;
      int tries = 0;
      auto& list = left[gap.rank];
      for (auto i = list.begin(); i != list.end() && tries < kCandidates;) {
        double start = std::max(gap.from, gradient(*i) + travel);
        if (start >= gap.until) break;
        if (start + items_[*i].backward > gap.until) {
          ++tries;
          ++i;
          continue;
        }
        items_[*i].backward_at = gap.position;
        gap.from = start + items_[*i].backward;
        i = list.erase(i);
      }
    }
  }

 private:
  double deadline(uint32_t i) const { return bubbles_.first_forward[items_[i].microbatch]; }
  double gradient(uint32_t i) const { return bubbles_.last_backward[items_[i].microbatch]; }

  // Longest first over the ranks, counting both operators.
  void spread_the_rest(const std::list<uint32_t>& left) {
    std::vector<double> work, held(size_t(step_.ranks), 0);
    for (uint32_t i : left) work.push_back(items_[i].forward + items_[i].backward);
    for (const auto& item : items_)
      if (item.rank >= 0) held[item.rank] += weight_ * item.backward;
    auto ranks = longest_first(work, step_.ranks, held);
    size_t at = 0;
    for (uint32_t i : left) items_[i].rank = ranks[at++];
  }

  const Step& step_;
  const Bubbles& bubbles_;
  double latency_, weight_;
  std::vector<Placed>& items_;
  std::vector<Gap> gaps_;
};

// Every encoder item a share; generators' shares as they are spread.
Shares shares_of(const Step& step, std::vector<Placed>& items, const Costs& nominal) {
  Step encoders = step, generators = step;
  for (auto& module : encoders.modules)
    if (module.kind == Module::generator) module.items.clear();
  for (auto& module : generators.modules)
    if (module.kind == Module::encoder) module.items.clear();
  Shares shares = spread_singly(encoders), rest = spread(generators);
  Durations durations(step, shares, nominal);
  for (uint32_t n = 0; n < shares.list.size(); ++n) {
    const Share& share = shares.list[n];
    uint32_t microbatch = step.modules[share.module].items[shares.items[share.first]].microbatch;
    items.push_back(
        {microbatch, durations(share.rank, encoder_forward(n)), durations(share.rank, encoder_backward(n))});
  }
  for (auto share : rest.list) {
    auto own = rest.items_of(share);
    share.first = uint32_t(shares.items.size());
    shares.items.insert(shares.items.end(), own.begin(), own.end());
    shares.list.push_back(share);
  }
  return shares;
}

struct Inserted {
  int64_t position;
  Operator op;
};

Schedule assemble(const Schedule& base, const Shares& shares, const std::vector<Placed>& items) {
  Schedule out{
      .step = base.step, .operators = {}, .row_begin = {0}, .shares = shares, .units = {}, .overlapped = {}};
  for (size_t n = 0; n < items.size(); ++n) out.shares.list[n].rank = items[n].rank;
  std::vector<std::vector<Inserted>> inserted(base.ranks());
  for (uint32_t n = 0; n < items.size(); ++n) {
    auto& list = inserted[items[n].rank];
    int64_t behind_all = int64_t(base.row(items[n].rank).size());
    list.push_back({items[n].forward_at, encoder_forward(n)});
    list.push_back(
        {items[n].backward_at == Placed::kOutside ? behind_all : items[n].backward_at, encoder_backward(n)});
  }
  for (auto n = uint32_t(items.size()); n < out.shares.list.size(); ++n) {
    int rank = out.shares.list[n].rank;
    auto row = base.row(rank);
    auto turn =
        std::find_if(row.begin(), row.end(), [](const Operator& op) { return op.phase != Phase::forward; });
    inserted[rank].push_back({turn - row.begin(), generate(n)});
  }
  for (int rank = 0; rank < base.ranks(); ++rank) {
    auto row = base.row(rank);
    auto& list = inserted[rank];
    // In one place: encoder backwards, whose gradients are there, then forwards, then generators.
    std::stable_sort(list.begin(), list.end(), [](const Inserted& a, const Inserted& b) {
      auto turn = [](const Operator& op) {
        return op.phase == Phase::backward ? 0 : op.phase == Phase::forward ? 1 : 2;
      };
      return a.position != b.position ? a.position < b.position : turn(a.op) < turn(b.op);
    });
    int64_t taken = 0;
    for (const auto& [position, op] : list) {
      int64_t until = std::max(position, taken);
      out.operators.insert(out.operators.end(), row.begin() + taken, row.begin() + until);
      taken = until;
      out.operators.push_back(op);
    }
    out.operators.insert(out.operators.end(), row.begin() + taken, row.end());
    out.row_begin.push_back(int64_t(out.operators.size()));
  }
  return out;
}

double step_time(const Schedule& schedule, const Costs& costs) {
  Durations durations(schedule, costs);
  std::vector<double> ends;
  double time = 0;
  run_table(schedule, Dependencies(schedule), durations, durations.latency(), ends,
            [&](int, const Operator&, double, double end) { time = std::max(time, end); });
  return time;
}

}  // namespace

Schedule optimus_schedule(const Step& step, const Costs& nominal) {
  Schedule base = base_table(step, step.has(Module::generator) ? Turn::behind_all_forwards : Turn::at_once);
  std::vector<Placed> unplaced;
  Shares shares = shares_of(step, unplaced, nominal);
  Bubbles bubbles = find_bubbles(base, nominal);
  Schedule best;
  double shortest = std::numeric_limits<double>::infinity();
  for (double weight : kBackwardWeights) {
    auto items = unplaced;
    Filler filler(step, bubbles, nominal.latency, weight, items);
    filler.place_forwards();
    filler.place_backwards();
    Schedule schedule = assemble(base, shares, items);
    double time = step_time(schedule, nominal);
    if (time >= shortest) continue;
    shortest = time;
    best = std::move(schedule);
  }
  return best;
}

}  // namespace bigmac
