#include "bigmac/schedule/nest.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "bigmac/common/error.h"
#include "bigmac/schedule/base.h"
#include "bigmac/schedule/sends.h"
#include "bigmac/schedule/timing.h"

namespace bigmac {
namespace {

constexpr double kBefore = -std::numeric_limits<double>::infinity();
constexpr double kBehind = std::numeric_limits<double>::infinity();
constexpr double kLeastDuration = 1e-3;
constexpr double kMostLatency = 1e6;

// The number of operators of each rank's row that stand before a cut.
using Cut = std::vector<int64_t>;

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

// The backbone-only timeline with nominal durations, asked for cuts and for moments of units.
class Cuts {
 public:
  Cuts(const Schedule& base, const Costs& nominal)
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

  double first_forward(int64_t unit) const {
    int64_t m = unit * base_.step.ranks;
    return ends_[ids_.forward_of(0, m)] - durations_(0, backbone_forward(0, int(m)));
  }
  double last_backward_ends(int64_t unit) const { return ends_[ids_.backward_of(0, last(unit))]; }
  double last_forward_ends(int64_t unit) const { return ends_[ids_.forward_of(ids_.stages - 1, last(unit))]; }
  double longest() const { return durations_.longest_backbone(); }
  bool before_first_forward(const Cut& cut, int64_t unit) const {
    return cut[0] <= positions_[ids_.forward_of(0, unit * base_.step.ranks)];
  }

  // Each rank's operators that start before t. Costs such as 0.1 do not add up exactly, so t is taken a
  // rounding error earlier; a cut is consistent for any t.
  Cut at(double t) const {
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

  // A timeline in which sends leave at once may cut between a send and what must run before its receive is
  // posted. These move a cut, later or earlier, until it is consistent for blocking sends too.
  Cut grown(Cut cut) const {
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
  Cut shrunk(Cut cut) const {
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

  // A cut moved later may have passed what waits for the unit; as much of it as does not need that.
  Cut before_first_backward(Cut cut, int64_t unit) const {
    cut.back() =
        std::min<int64_t>(cut.back(), positions_[ids_.backward_of(ids_.stages - 1, unit * base_.step.ranks)]);
    return shrunk(std::move(cut));
  }

 private:
  int64_t last(int64_t unit) const { return (unit + 1) * base_.step.ranks - 1; }

  double start(int rank, std::span<const Operator> row, int64_t position) const {
    double ready = inputs_ready(base_.step, ids_, rank, row[position], ends_, durations_.latency());
    return position == 0 ? ready : std::max(ready, ends_[ids_.of(rank, row[position - 1])]);
  }

  // What the first `count` operators of a row need to have run on other ranks: calls need(at, rank, count),
  // the operator at position `at` needs the first `count` of that rank. Messages in one direction are taken
  // in the order in which they are sent, so the last one of each phase speaks for those before it.
  template <class Need>
  void for_each_need(int rank, int64_t count, Need&& need) const {
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

  const Schedule& base_;
  Ids ids_;
  Durations durations_;
  std::vector<int32_t> positions_;
  std::vector<double> ends_;
};

struct Placement {
  double time;
  Unit unit;
};

bool any_in_unit(const std::vector<uint8_t>& flags, int64_t unit, int64_t ranks) {
  auto first = flags.begin() + unit * ranks;
  return std::any_of(first, first + ranks, [](uint8_t flag) { return flag != 0; });
}

std::vector<Placement> place_units(const Step& step, const Cuts& cuts) {
  std::vector<Placement> placements;
  int64_t units = step.microbatches / step.ranks;
  auto add = [&](double time, Module module, Phase phase, int64_t unit, const Cut& cut) {
    const auto& flags = module == Module::encoder ? step.encoder : step.generator;
    if (any_in_unit(flags, unit, step.ranks)) placements.push_back({time, {module, phase, unit, cut}});
  };
  auto add_encoder = [&](Phase phase, int64_t unit, double time, const Cut& cut) {
    add(time, Module::encoder, phase, unit, cut);
  };
  if (step.has_encoder() && step.arrangement == Arrangement::three_phase) {
    for (int64_t u = 0; u < units; ++u) {
      add_encoder(Phase::forward, u, kBefore, cuts.at(kBefore));
      add_encoder(Phase::backward, u, kBehind, cuts.at(kBehind));
    }
  } else if (step.has_encoder()) {
    std::vector<double> done;
    std::vector<Cut> behind;  // where each unit's gradients are there
    for (int64_t u = 0; u < units; ++u) {
      done.push_back(cuts.last_backward_ends(u));
      behind.push_back(cuts.grown(cuts.at(done.back())));
    }
    auto enough = [&](int64_t ahead) {
      for (int64_t u = ahead; u < units; ++u)
        if (!cuts.before_first_forward(behind[u - ahead], u)) return false;
      return true;
    };
    int64_t ahead = units_ahead(step);
    if (!enough(ahead)) {
      int64_t least = ahead + 1;
      while (!enough(least)) ++least;
      throw InvalidInput(concat("[nest] encoder warm-up units (W) must be at least ", least,
                                " for P=", step.ranks, " V=", step.chunks, " M=", step.microbatches,
                                step.base == Base::interleaved ? concat(" G=", step.group_size()) : "",
                                step.has_generator() ? " with a generator" : "", ", got ",
                                step.warmup_units));
    }
    for (int64_t u = 0; u < ahead; ++u) {
      double time = u == 0 ? kBefore : cuts.first_forward(u) - cuts.longest();
      add_encoder(Phase::forward, u, time, cuts.shrunk(cuts.at(time)));
    }
    for (int64_t u = 0; u < units; ++u) {
      add_encoder(Phase::backward, u, done[u], behind[u]);
      if (u + ahead < units) add_encoder(Phase::forward, u + ahead, done[u], behind[u]);
    }
  }
  if (step.has_generator())
    for (int64_t u = 0; u < units; ++u) {
      double time = cuts.last_forward_ends(u);
      add(time, Module::generator, Phase::generate, u,
          cuts.before_first_backward(cuts.grown(cuts.at(time)), u));
    }
  // All ranks take the units in this one order, so units that share a cut cannot cross either.
  std::stable_sort(placements.begin(), placements.end(),
                   [](const Placement& a, const Placement& b) { return a.time < b.time; });
  // A moved cut may lie beyond the next unit's; then that unit moves with it.
  for (size_t i = 1; i < placements.size(); ++i)
    for (int64_t rank = 0; rank < step.ranks; ++rank) {
      auto& place = placements[i].unit.place[rank];
      place = std::max(place, placements[i - 1].unit.place[rank]);
    }
  return placements;
}

Operator unit_operator(const Unit& unit, int64_t microbatch) {
  return {uint32_t(microbatch), 0, unit.module, unit.phase};
}

Schedule insert(const Schedule& base, std::vector<Placement> placements) {
  const Step& step = base.step;
  auto flags = [&](const Unit& unit) -> const std::vector<uint8_t>& {
    return unit.module == Module::encoder ? step.encoder : step.generator;
  };
  Schedule out{.step = step, .operators = {}, .row_begin = {0}, .units = {}};
  size_t nested = 0;
  for (const auto& placement : placements)
    for (int64_t rank = 0; rank < step.ranks; ++rank)
      nested += flags(placement.unit)[placement.unit.index * step.ranks + rank];
  out.operators.reserve(base.operators.size() + nested);
  for (int rank = 0; rank < base.ranks(); ++rank) {
    auto row = base.row(rank);
    int64_t taken = 0, begin = int64_t(out.operators.size());
    for (auto& [time, unit] : placements) {
      out.operators.insert(out.operators.end(), row.begin() + taken, row.begin() + unit.place[rank]);
      taken = unit.place[rank];
      unit.place[rank] = int64_t(out.operators.size()) - begin;
      int64_t m = unit.index * step.ranks + rank;
      if (flags(unit)[m]) out.operators.push_back(unit_operator(unit, m));
    }
    out.operators.insert(out.operators.end(), row.begin() + taken, row.end());
    out.row_begin.push_back(int64_t(out.operators.size()));
  }
  for (auto& placement : placements) out.units.push_back(std::move(placement.unit));
  return out;
}

}  // namespace

Schedule make_schedule(const Step& step, const Costs& nominal) {
  check_step(step);
  bool nests = step.arrangement != Arrangement::llm_only && (step.has_encoder() || step.has_generator());
  if (!nests) return base_table(step);
  Schedule base = base_table(step, step.has_generator() ? step.ranks : 0);
  base.step.arrangement = Arrangement::llm_only;
  auto placements = place_units(step, Cuts(base, nominal));
  base.step.arrangement = step.arrangement;
  return insert(base, std::move(placements));
}

}  // namespace bigmac
