#include "bigmac/schedule/nest.h"

#include <algorithm>

#include "bigmac/common/error.h"
#include "bigmac/schedule/base.h"
#include "bigmac/schedule/cuts.h"

namespace bigmac {
namespace {

struct Placement {
  double time;
  Unit unit;
};

bool any_in_unit(const std::vector<uint8_t>& flags, int64_t unit, int64_t ranks) {
  auto first = flags.begin() + unit * ranks;
  return std::any_of(first, first + ranks, [](uint8_t flag) { return flag != 0; });
}

// Collects units in any order; those without a single microbatch are left out.
class Placements {
 public:
  explicit Placements(const Step& step) : step_(step) {}

  void add(Module module, Phase phase, int64_t unit, double time, const Cut& cut) {
    const auto& flags = module == Module::encoder ? step_.encoder : step_.generator;
    if (any_in_unit(flags, unit, step_.ranks)) placements_.push_back({time, {module, phase, unit, cut}});
  }

  // All ranks take the units in one order, so units that share a cut cannot cross either. A moved cut may lie
  // beyond the next unit's; then that unit moves with it.
  std::vector<Placement> take() {
    std::stable_sort(placements_.begin(), placements_.end(),
                     [](const Placement& a, const Placement& b) { return a.time < b.time; });
    for (size_t i = 1; i < placements_.size(); ++i)
      for (int64_t rank = 0; rank < step_.ranks; ++rank) {
        auto& place = placements_[i].unit.place[rank];
        place = std::max(place, placements_[i - 1].unit.place[rank]);
      }
    return std::move(placements_);
  }

 private:
  const Step& step_;
  std::vector<Placement> placements_;
};

// Whether with `ahead` units of warm-up every unit's forward comes before what needs it. behind[u] is the cut
// of unit u's backward.
bool enough_units(const Cuts& cuts, const std::vector<Cut>& behind, int64_t ahead) {
  for (int64_t u = ahead; u < int64_t(behind.size()); ++u)
    if (!cuts.before_first_forward(behind[u - ahead], u)) return false;
  return true;
}

void check_warmup_units(const Step& step, const Cuts& cuts, const std::vector<Cut>& behind) {
  int64_t least = units_ahead(step);
  if (enough_units(cuts, behind, least)) return;
  while (!enough_units(cuts, behind, least)) ++least;
  throw InvalidInput(concat("[nest] encoder warm-up units (W) must be at least ", least,
                            " for P=", step.ranks, " V=", step.chunks, " M=", step.microbatches,
                            step.base == Base::interleaved ? concat(" G=", step.group_size()) : "",
                            step.has_generator() ? " with a generator" : "", ", got ", step.warmup_units));
}

void place_encoder(const Step& step, const Cuts& cuts, Placements& placements) {
  int64_t units = step.microbatches / step.ranks, ahead = units_ahead(step);
  auto add = [&](Phase phase, int64_t unit, double time, const Cut& cut) {
    placements.add(Module::encoder, phase, unit, time, cut);
  };
  if (step.arrangement == Arrangement::three_phase) {
    for (int64_t u = 0; u < units; ++u) {
      add(Phase::forward, u, kBeforeAll, cuts.at(kBeforeAll));
      add(Phase::backward, u, kBehindAll, cuts.at(kBehindAll));
    }
    return;
  }
  std::vector<double> done;
  std::vector<Cut> behind;  // where each unit's gradients are there
  for (int64_t u = 0; u < units; ++u) {
    done.push_back(cuts.last_backward_ends(u));
    behind.push_back(cuts.grown(cuts.at(done.back())));
  }
  check_warmup_units(step, cuts, behind);
  for (int64_t u = 0; u < ahead; ++u) {
    double time = u == 0 ? kBeforeAll : cuts.first_forward(u) - cuts.longest();
    add(Phase::forward, u, time, cuts.shrunk(cuts.at(time)));
  }
  for (int64_t u = 0; u < units; ++u) {
    add(Phase::backward, u, done[u], behind[u]);
    if (u + ahead < units) add(Phase::forward, u + ahead, done[u], behind[u]);
  }
}

void place_generator(const Step& step, const Cuts& cuts, Placements& placements) {
  for (int64_t u = 0; u < step.microbatches / step.ranks; ++u) {
    double time = cuts.last_forward_ends(u);
    placements.add(Module::generator, Phase::generate, u, time,
                   cuts.before_first_backward(cuts.grown(cuts.at(time)), u));
  }
}

std::vector<Placement> place_units(const Step& step, const Cuts& cuts) {
  Placements placements(step);
  if (step.has_encoder()) place_encoder(step, cuts, placements);
  if (step.has_generator()) place_generator(step, cuts, placements);
  return placements.take();
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
