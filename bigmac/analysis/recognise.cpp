#include "bigmac/analysis/recognise.h"

#include <algorithm>

#include "bigmac/common/error.h"
#include "bigmac/measured/replay.h"
#include "bigmac/schedule/make.h"

namespace bigmac {
namespace {

constexpr size_t kMostCompared = 200'000;  // of a table that others are compared with

bool same_operator(const Schedule& a, const Operator& of_a, const Schedule& b, const Operator& of_b) {
  if (of_a.module != of_b.module || of_a.phase != of_b.phase) return false;
  if (of_a.module == Module::backbone) return of_a == of_b;
  const Share &left = a.shares.list[of_a.index], &right = b.shares.list[of_b.index];
  auto items_a = a.shares.items_of(left), items_b = b.shares.items_of(right);
  return left.module == right.module &&
         std::equal(items_a.begin(), items_a.end(), items_b.begin(), items_b.end());
}

bool same_rows(const Schedule& a, const Schedule& b) {
  if (a.row_begin != b.row_begin) return false;
  for (size_t n = 0; n < a.operators.size(); ++n)
    if (!same_operator(a, a.operators[n], b, b.operators[n])) return false;
  return true;
}

// More than one share of a rank in a unit: items are placed one by one.
bool places_items_singly(const Schedule& schedule) {
  const auto& list = schedule.shares.list;
  for (size_t n = 1; n < list.size(); ++n)
    if (list[n].module == list[n - 1].module && list[n].unit == list[n - 1].unit &&
        list[n].rank == list[n - 1].rank)
      return true;
  return false;
}

// The arrangement and W with which this base's table is the recorded one.
std::optional<Step> arrangement_of(const Recording& recording, Step step, Base base, const Costs& costs) {
  constexpr int64_t kMostUnits = 9;
  step.base = base;
  for (auto arrangement : {Arrangement::nested, Arrangement::three_phase, Arrangement::megatron,
                           Arrangement::nested_fill, Arrangement::optimus})
    for (int64_t units = 0; units <= kMostUnits; ++units) {
      bool ahead = arrangement == Arrangement::nested || arrangement == Arrangement::nested_fill;
      if (units > 0 && !ahead) break;
      step.arrangement = arrangement;
      for (auto& module : step.modules)
        if (module.kind == Module::encoder) module.warmup_units = units;
      for (const auto& nominal : {costs, Costs{}}) {
        try {
          if (same_rows(make_schedule(step, nominal), recording.schedule)) return step;
        } catch (const InvalidInput&) {
          break;  // not with these counts
        }
        if (arrangement == Arrangement::megatron || arrangement == Arrangement::three_phase) break;
      }
    }
  return {};
}

}  // namespace

Recognised recognise(const Recording& recording, const Costs& costs) {
  const Step& own = recording.schedule.step;
  if (own.base != Base::custom) return {own, true, true};
  MeasuredStep measured{.name = {}, .schedule = recording.schedule, .timeline = {}, .rank_steps = {}};
  Recognised found{step_like(measured)};
  if (own.stages() != own.ranks * own.chunks) return found;
  if (auto base = base_of(measured)) {
    found.step = *base;
    found.base_known = true;
  }
  found.exact = found.base_known && own.modules.empty();
  if (own.modules.empty() || recording.schedule.operators.size() > kMostCompared) return found;
  // With a generator backwards may turn at once, which base_of does not look for.
  std::vector<Base> bases{found.step.base};
  if (!found.base_known) bases = {Base::one_f_one_b, Base::interleaved, Base::zb_h1, Base::zb_v};
  for (Base base : bases)
    if (auto step = arrangement_of(recording, found.step, base, costs)) return {*step, true, true};
  if (places_items_singly(recording.schedule)) found.step.arrangement = Arrangement::nested_fill;
  return found;
}

}  // namespace bigmac
