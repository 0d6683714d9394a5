#include "bigmac/schedule/nest.h"

#include <algorithm>

#include "bigmac/common/error.h"
#include "bigmac/schedule/base.h"
#include "bigmac/schedule/cuts.h"
#include "bigmac/schedule/spread.h"

namespace bigmac {
namespace {

constexpr int64_t kWarmupUnits = 3;

struct Placement {
  double time;
  Unit unit;
};

// The microbatches of one unit.
struct Span {
  int64_t first, last;
};

class Placer {
 public:
  Placer(const Step& step, const Cuts& cuts) : step_(step), cuts_(cuts) {}

  void place(int32_t module) {
    choose(module);
    if (step_.modules[module].kind == Module::generator)
      place_generator();
    else if (step_.arrangement == Arrangement::three_phase)
      place_around();
    else if (step_.modules[module].trained)
      place_encoder();
    else
      place_frozen();
  }

  int64_t warmup_units(int32_t module) {
    choose(module);
    return warmup_units(behind_units());
  }

  // All ranks take the units in one order, so units that share a cut cannot cross either. A moved cut may lie
  // beyond the next unit's; then that unit moves with it, or, where it would come too late for what needs it,
  // stands before it. The larger and the smaller of two consistent cuts, rank by rank, are consistent too.
  std::vector<Placement> take() {
    std::stable_sort(placements_.begin(), placements_.end(),
                     [](const Placement& a, const Placement& b) { return a.time < b.time; });
    std::vector<Placement> taken;
    taken.reserve(placements_.size());
    for (auto& placement : placements_) {
      auto& cut = placement.unit.place;
      auto at = taken.end();
      while (at != taken.begin() && is_too_late(std::prev(at)->unit.place, placement.unit)) --at;
      for (size_t rank = 0; rank < cut.size(); ++rank) {
        if (at != taken.end()) cut[rank] = std::min(cut[rank], at->unit.place[rank]);
        if (at != taken.begin()) cut[rank] = std::max(cut[rank], std::prev(at)->unit.place[rank]);
      }
      taken.insert(at, std::move(placement));
    }
    return taken;
  }

 private:
  void choose(int32_t module) {
    module_ = module;
    size_ = step_.unit_size(step_.modules[module].kind);
    units_ = (step_.microbatches + size_ - 1) / size_;
  }

  // Whether behind this cut the unit's outputs come behind what needs them.
  bool is_too_late(const Cut& cut, const Unit& unit) {
    if (unit.phase == Phase::backward) return false;
    choose(unit.module);
    auto [first, last] = span(unit.index);
    return unit.phase == Phase::forward ? !cuts_.before_first_forward(cut, first, last)
                                        : !cuts_.is_before_first_backward(cut, first, last);
  }

  Span span(int64_t unit) const { return {unit * size_, std::min((unit + 1) * size_, step_.microbatches)}; }

  bool has_items(int64_t unit) const {
    auto [first, last] = span(unit);
    const auto& items = step_.modules[module_].items;
    auto found = std::lower_bound(items.begin(), items.end(), first,
                                  [](const Item& item, int64_t m) { return item.microbatch < m; });
    return found != items.end() && found->microbatch < last;
  }

  void add(Phase phase, int64_t unit, double time, Cut cut) {
    if (has_items(unit)) placements_.push_back({time, {module_, phase, unit, std::move(cut)}});
  }

  void place_around() {
    for (int64_t u = 0; u < units_; ++u) {
      add(Phase::forward, u, kBeforeAll, cuts_.at(kBeforeAll));
      if (step_.modules[module_].trained) add(Phase::backward, u, kBehindAll, cuts_.at(kBehindAll));
    }
  }

  double done(int64_t unit) const {
    auto [first, last] = span(unit);
    return cuts_.last_backward_ends(first, last);
  }

  // Where each unit's gradients are there.
  std::vector<Cut> behind_units() const {
    std::vector<Cut> behind;
    for (int64_t u = 0; u < units_; ++u) behind.push_back(cuts_.grown(cuts_.at(done(u))));
    return behind;
  }

  // As late as what needs it lets it.
  void place_by_need(int64_t unit) {
    auto [first, last] = span(unit);
    double time = unit == 0 ? kBeforeAll : cuts_.first_forward_starts(first, last) - 1;
    add(Phase::forward, unit, time, cuts_.shrunk(cuts_.at(time)));
  }

  void place_frozen() {
    for (int64_t u = 0; u < units_; ++u) place_by_need(u);
  }

  void place_encoder() {
    std::vector<Cut> behind = behind_units();
    int64_t ahead = warmup_units(behind);
    for (int64_t u = 0; u < ahead; ++u) place_by_need(u);
    for (int64_t u = 0; u < units_; ++u) {
      add(Phase::backward, u, done(u), behind[u]);
      if (u + ahead < units_) add(Phase::forward, u + ahead, done(u), behind[u]);
    }
  }

  // Whether with `ahead` units of warm-up every unit's forward comes before what needs it.
  bool enough(const std::vector<Cut>& behind, int64_t ahead) const {
    for (int64_t u = ahead; u < units_; ++u) {
      auto [first, last] = span(u);
      if (!cuts_.before_first_forward(behind[u - ahead], first, last)) return false;
    }
    return true;
  }

  int64_t warmup_units(const std::vector<Cut>& behind) const {
    const auto& module = step_.modules[module_];
    int64_t asked = module.warmup_units;
    int64_t least = std::min(asked == 0 ? kWarmupUnits : asked, units_);
    while (!enough(behind, least)) ++least;
    if (asked != 0 && least > asked)
      throw InvalidInput(concat(
          "[nest] warm-up units (W) of '", module.name, "' must be at least ", least, " for ", shape(step_),
          step_.base == Base::interleaved ? concat(" G=", step_.group_size()) : "", " with the base '",
          name(step_.base), "'", step_.has(Module::generator) ? " and a generator" : "", ", got ", asked));
    return least;
  }

  void place_generator() {
    for (int64_t u = 0; u < units_; ++u) {
      auto [first, last] = span(u);
      double time = cuts_.last_forward_ends(first, last);
      add(Phase::generate, u, time, cuts_.before_first_backward(cuts_.grown(cuts_.at(time)), first, last));
    }
  }

  const Step& step_;
  const Cuts& cuts_;
  std::vector<Placement> placements_;
  int32_t module_ = 0;
  int64_t size_ = 1, units_ = 0;
};

// Shares of a unit, in order of rank.
std::span<const Share> shares_of(const Shares& shares, const Unit& unit) {
  auto key = [](const Share& share) { return std::pair(share.module, int64_t(share.unit)); };
  auto wanted = std::pair(unit.module, unit.index);
  auto first = std::lower_bound(shares.list.begin(), shares.list.end(), wanted,
                                [&](const Share& share, const auto& value) { return key(share) < value; });
  auto last = first;
  while (last != shares.list.end() && key(*last) == wanted) ++last;
  return std::span(shares.list).subspan(size_t(first - shares.list.begin()), size_t(last - first));
}

// Pairs of the base that nothing was put between.
void keep_pairs(const Schedule& base, Schedule& out) {
  size_t pair = 0;
  int64_t taken = 0;  // of the base
  for (int64_t n = 0; n < int64_t(out.operators.size()) && pair < base.overlapped.size(); ++n) {
    if (out.operators[n].module != Module::backbone) continue;
    if (taken++ != base.overlapped[pair]) continue;
    if (out.operators[n + 1].module == Module::backbone) out.overlapped.push_back(n);
    ++pair;
  }
}

Schedule insert(const Schedule& base, Shares shares, std::vector<Placement> placements) {
  Schedule out{.step = base.step,
               .operators = {},
               .row_begin = {0},
               .shares = std::move(shares),
               .units = {},
               .overlapped = {}};
  out.operators.reserve(base.operators.size() + 2 * out.shares.list.size());
  std::vector<std::span<const Share>> shares_by_unit;
  shares_by_unit.reserve(placements.size());
  for (const auto& placement : placements) shares_by_unit.push_back(shares_of(out.shares, placement.unit));
  for (int rank = 0; rank < base.ranks(); ++rank) {
    auto row = base.row(rank);
    int64_t begin = out.row_begin.back(), taken = 0;
    for (size_t u = 0; u < placements.size(); ++u) {
      auto& unit = placements[u].unit;
      out.operators.insert(out.operators.end(), row.begin() + taken, row.begin() + unit.place[rank]);
      taken = unit.place[rank];
      unit.place[rank] = int64_t(out.operators.size()) - begin;
      auto& left = shares_by_unit[u];
      if (left.empty() || left.front().rank != rank) continue;
      auto number = uint32_t(&left.front() - out.shares.list.data());
      out.operators.push_back({number, 0, out.step.modules[unit.module].kind, unit.phase});
      left = left.subspan(1);
    }
    out.operators.insert(out.operators.end(), row.begin() + taken, row.end());
    out.row_begin.push_back(int64_t(out.operators.size()));
  }
  for (auto& placement : placements) out.units.push_back(std::move(placement.unit));
  keep_pairs(base, out);
  return out;
}

}  // namespace

Schedule nested_schedule(const Step& step, const Costs& nominal) {
  Schedule base = base_table(step, step.has(Module::generator) ? Turn::behind_generator : Turn::at_once);
  Shares shares = spread(step);
  std::vector<Placement> placements;
  {
    Cuts cuts(base, nominal);
    Placer placer(step, cuts);
    for (size_t n = 0; n < step.modules.size(); ++n) placer.place(int32_t(n));
    placements = placer.take();
  }
  return insert(base, std::move(shares), std::move(placements));
}

std::vector<int64_t> warmup_units(const Step& step, const Costs& nominal) {
  Schedule base = base_table(step, step.has(Module::generator) ? Turn::behind_generator : Turn::at_once);
  Cuts cuts(base, nominal);
  Placer placer(step, cuts);
  std::vector<int64_t> units(step.modules.size(), 0);
  for (size_t n = 0; n < units.size(); ++n) {
    const auto& module = step.modules[n];
    if (module.kind != Module::encoder) continue;
    int64_t least = module.trained ? placer.warmup_units(int32_t(n)) : 1;
    units[n] = module.warmup_units == 0 ? std::max(least, kWarmupUnits) : module.warmup_units;
  }
  return units;
}

}  // namespace bigmac
