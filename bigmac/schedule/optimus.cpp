#include "bigmac/schedule/optimus.h"

#include <algorithm>
#include <limits>
#include <list>
#include <tuple>

#include "bigmac/common/error.h"
#include "bigmac/schedule/backbone_timeline.h"
#include "bigmac/schedule/base.h"
#include "bigmac/schedule/check.h"
#include "bigmac/schedule/length.h"
#include "bigmac/schedule/spread.h"

namespace bigmac {
namespace {

// How much of the backwards that the bubbles' items bring a rank counts against giving it more items.
constexpr double kBackwardWeights[] = {0, 0.5, 1, 2};

// Items looked at for one bubble that do not fit, before the next bubble's turn.
constexpr int kCandidates = 16;
constexpr double kEndless = std::numeric_limits<double>::infinity();

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

Bubbles find_bubbles(const BackboneTimeline& backbone) {
  Bubbles found;
  for (int rank = 0; rank < backbone.table.ranks(); ++rank) {
    int64_t begin = backbone.table.row_begin[rank];
    double free = 0;
    for (int64_t o = begin; o < backbone.table.row_begin[rank + 1]; ++o) {
      if (backbone.starts[o] > free) found.gaps.push_back({rank, o - begin, free, backbone.starts[o]});
      free = backbone.ends[o];
    }
  }
  std::sort(found.gaps.begin(), found.gaps.end(),
            [](const Gap& a, const Gap& b) { return a.from != b.from ? a.from < b.from : a.rank < b.rank; });
  for (int32_t o : backbone.first_forward) found.first_forward.push_back(backbone.starts[o]);
  for (int32_t o : backbone.first_backward) found.last_backward.push_back(backbone.ends[o]);
  return found;
}

// Where an operator goes: in front of a backbone operator of its row, kOutside for before or behind all, and
// among those there by moments of the backbone's timeline.
struct Place {
  static constexpr int64_t kOutside = -1;
  int64_t position = kOutside;
  double moment = 0;
};

// An encoder's item as a share of its own.
struct Placed {
  uint32_t microbatch;
  bool has_backward;
  double forward_takes, backward_takes;
  int32_t rank;
  Place forward, backward;
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
        double end = gap->from + items_[*i].forward_takes;
        if (end > std::min(gap->until, deadline(*i) - travel)) {
          ++tries;
          ++i;
          continue;
        }
        items_[*i].rank = gap->rank;
        items_[*i].forward = {gap->position, gap->from};
        gap->from = end;
        i = left.erase(i);
      }
    }
    spread_the_rest(left);
  }

  void place_backwards() {
    int root = rank_of_stage(step_, 0);
    std::vector<std::vector<uint32_t>> by_rank(step_.ranks);
    for (uint32_t i = 0; i < items_.size(); ++i)
      if (items_[i].has_backward) by_rank[items_[i].rank].push_back(i);
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
        if (start + items_[*i].backward_takes > gap.until) {
          ++tries;
          ++i;
          continue;
        }
        items_[*i].backward = {gap.position, start};
        gap.from = start + items_[*i].backward_takes;
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
    for (uint32_t i : left) work.push_back(items_[i].forward_takes + items_[i].backward_takes);
    for (const auto& item : items_)
      if (item.forward.position != Place::kOutside) held[item.rank] += weight_ * item.backward_takes;
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
Shares make_shares(const Step& step, const Bubbles& bubbles, const Costs& nominal,
                   std::vector<Placed>& items) {
  Shares shares = spread_singly(only_items_of(Module::encoder, step)),
         rest = spread(only_items_of(Module::generator, step));
  Durations durations(step, shares, nominal);
  for (uint32_t n = 0; n < shares.list.size(); ++n) {
    const Share& share = shares.list[n];
    uint32_t microbatch = step.modules[share.module].items[shares.items[share.first]].microbatch;
    items.push_back({microbatch,
                     step.modules[share.module].trained,
                     durations(share.rank, encoder_forward(n)),
                     durations(share.rank, encoder_backward(n)),
                     share.rank,
                     {Place::kOutside, bubbles.first_forward[microbatch]},
                     {Place::kOutside, bubbles.last_backward[microbatch]}});
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
  Place place;
  Operator op;
};

Schedule assemble(const Schedule& base, const Shares& shares, const std::vector<Placed>& items) {
  Schedule out{
      .step = base.step, .operators = {}, .row_begin = {0}, .shares = shares, .units = {}, .overlapped = {}};
  for (size_t n = 0; n < items.size(); ++n) out.shares.list[n].rank = items[n].rank;
  std::vector<std::vector<Inserted>> inserted(base.ranks());
  for (uint32_t n = 0; n < items.size(); ++n) {
    auto& list = inserted[items[n].rank];
    list.push_back({items[n].forward, encoder_forward(n)});
    if (!items[n].has_backward) continue;
    Place backward = items[n].backward;
    if (backward.position == Place::kOutside) backward.position = int64_t(base.row(items[n].rank).size());
    list.push_back({backward, encoder_backward(n)});
  }
  for (auto n = uint32_t(items.size()); n < out.shares.list.size(); ++n) {
    int rank = out.shares.list[n].rank;
    auto row = base.row(rank);
    auto turn =
        std::find_if(row.begin(), row.end(), [](const Operator& op) { return op.phase != Phase::forward; });
    inserted[rank].push_back({{turn - row.begin(), kEndless}, generate(n)});
  }
  for (int rank = 0; rank < base.ranks(); ++rank) {
    auto row = base.row(rank);
    auto& list = inserted[rank];
    std::stable_sort(list.begin(), list.end(), [](const Inserted& a, const Inserted& b) {
      return std::tie(a.place.position, a.place.moment) < std::tie(b.place.position, b.place.moment);
    });
    int64_t taken = 0;
    for (const auto& [place, op] : list) {
      int64_t until = std::max(place.position, taken);
      out.operators.insert(out.operators.end(), row.begin() + taken, row.begin() + until);
      taken = until;
      out.operators.push_back(op);
    }
    out.operators.insert(out.operators.end(), row.begin() + taken, row.end());
    out.row_begin.push_back(int64_t(out.operators.size()));
  }
  return out;
}

}  // namespace

Schedule optimus_schedule(const Step& step, const Costs& nominal) {
  BackboneTimeline backbone(
      base_table(step, step.has(Module::generator) ? Turn::behind_all_forwards : Turn::at_once), nominal);
  Bubbles bubbles = find_bubbles(backbone);
  std::vector<Placed> items;
  Shares shares = make_shares(step, bubbles, nominal, items);
  struct Candidate {
    double length;
    Schedule schedule;
  };
  std::vector<Candidate> candidates;
  auto add = [&](const std::vector<Placed>& placed) {
    Schedule schedule = assemble(backbone.table, shares, placed);
    double length = length_of(schedule, nominal);
    candidates.push_back({length, std::move(schedule)});
  };
  add(items);
  for (double weight : kBackwardWeights) {
    auto placed = items;
    Filler filler(step, bubbles, nominal.latency, weight, placed);
    filler.place_forwards();
    filler.place_backwards();
    add(placed);
  }
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const Candidate& a, const Candidate& b) { return a.length < b.length; });
  // With nothing in bubbles no send can wait in a circle.
  for (auto& candidate : candidates)
    if (check(candidate.schedule, Sends::blocking).empty()) return std::move(candidate.schedule);
  throw Failure("[optimus] made no table that runs with blocking sends");
}

}  // namespace bigmac
