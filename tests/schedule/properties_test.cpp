// What must hold for every base, P, V, M and any costs.
#include <gtest/gtest.h>

#include <array>
#include <numeric>

#include "bigmac/schedule/base.h"
#include "bigmac/schedule/check.h"
#include "bigmac/schedule/make.h"
#include "bigmac/simulate/simulate.h"
#include "tests/schedule/support.h"

namespace bigmac {
namespace {

struct Case {
  Step step;
  Costs costs;  // known to the scheduler
};

// The base that nesting leaves: with a generator, backwards turn behind it.
Schedule base_left(const Step& step) {
  return base_table(without_nesting(step),
                    step.has(Module::generator) ? Turn::behind_generator : Turn::at_once);
}

// The W that the refusal of a step names, and the module; nullopt where it is taken.
std::optional<std::pair<std::string, int64_t>> least_warmup_named(const Step& step, const Costs& costs) {
  auto message = refusal([&] { make_schedule(step, costs); });
  if (!message) return std::nullopt;
  const std::string before = "(W) of '", after = "' must be at least ";
  auto first = message->find(before), last = message->find(after);
  if (first == std::string::npos || last == std::string::npos) {
    ADD_FAILURE() << "names no W: " << *message;
    return std::nullopt;
  }
  first += before.size();
  return std::pair(message->substr(first, last - first), std::stoll(message->substr(last + after.size())));
}

// Raises the modules' W to what their refusals name.
void take_least_warmup(Step& step, const Costs& costs) {
  for (size_t tries = 0; tries <= step.modules.size(); ++tries) {
    auto least = least_warmup_named(step, costs);
    if (!least) return;
    for (auto& module : step.modules)
      if (module.name == least->first) {
        EXPECT_LT(module.warmup_units, least->second);
        module.warmup_units = least->second;
      }
  }
  ADD_FAILURE() << "is refused with the W that it names";
}

Case random_case(Random& random) {
  Base base = kBases[size_t(integer(random, 0, 5))];
  auto chunks = chunks_of(base, 4);
  Step step =
      step_of_base(base, integer(random, 1, 8),
                   chunks[size_t(integer(random, 0, int64_t(chunks.size()) - 1))], integer(random, 1, 26));
  if (base == Base::interleaved && integer(random, 0, 1) == 1)
    step.group = integer(random, step.ranks, std::max(step.ranks, step.microbatches));
  step.arrangement = Arrangement::nested;
  double sigma = uniform(random, 0, 2);
  auto add = [&](const std::string& module, Module kind) {
    step.modules.push_back({module, kind, random_items(random, step.microbatches, sigma, 4)});
    if (kind == Module::encoder && integer(random, 0, 1) == 1)
      step.modules.back().warmup_units = integer(random, 1, 6);
  };
  int64_t encoders = integer(random, 1, 3), generators = integer(random, 0, 2);
  for (int64_t n = 0; n < std::max(encoders, generators); ++n) {
    if (n < encoders) add(concat("encoder ", n), Module::encoder);
    if (n < generators) add(concat("generator ", n), Module::generator);
  }
  freeze_some(random, step, 4);
  step.generator_unit = integer(random, 0, step.ranks);
  step.spread = integer(random, 0, 7) > 0;
  if (integer(random, 0, 3) == 0) {
    step.order.resize(size_t(step.microbatches));
    std::iota(step.order.begin(), step.order.end(), 0u);
    std::shuffle(step.order.begin(), step.order.end(), random);
  }
  Costs costs;
  if (integer(random, 0, 3) > 0)
    costs = random_stage_costs(random, step);
  else
    costs.modules = {{uniform(random, 0.01, 2), uniform(random, 0.01, 4)}};
  take_least_warmup(step, costs);
  return {step, costs};
}

// 1. Take the nested operators out and the base table is left, operator for operator.
void expect_base_left(const Schedule& schedule) {
  EXPECT_EQ(rows_of(strip(schedule)), rows_of(base_left(schedule.step)));
}

// 2. Every unit's places form a consistent cut; the table has no cycle, also when sends block.
void expect_consistent_cuts(const Schedule& schedule) {
  for (auto sends : {Sends::buffered, Sends::blocking}) {
    Oracle oracle(schedule, sends);
    ASSERT_TRUE(oracle.complete());
    EXPECT_TRUE(oracle.all_cut_consistently());
    EXPECT_FALSE(oracle.deadlocks()) << name(sends);
    EXPECT_EQ(check(schedule, sends), std::vector<std::string>{}) << name(sends);
  }
  UnitShares shares(schedule);
  size_t placed = 0;
  for (const auto& unit : schedule.units) {
    Module kind = schedule.step.modules[size_t(unit.module)].kind;
    bool any = false;
    for (int rank = 0; rank < schedule.ranks(); ++rank) {
      int64_t share = shares.of(unit, rank);
      if (share < 0) continue;
      any = true;
      ++placed;
      ASSERT_LT(unit.place[rank], int64_t(schedule.row(rank).size()));
      EXPECT_EQ(schedule.row(rank)[unit.place[rank]], (Operator{uint32_t(share), 0, kind, unit.phase}));
    }
    EXPECT_TRUE(any) << "unit " << unit.index << " of module " << unit.module << " has no items";
  }
  EXPECT_EQ(placed, size_t(std::count_if(schedule.operators.begin(), schedule.operators.end(),
                                         [](const auto& op) { return op.module != Module::backbone; })));
}

// How much longer a nested step is than what is left of it without the nested operators plus, for every unit,
// the slowest rank's time in it.
template <class Duration>
double excess(const Schedule& schedule, const Duration& duration) {
  double bound = Oracle(strip(schedule)).length(duration) + slowest_times(schedule, duration);
  return Oracle(schedule).length(duration) - bound * (1 + 1e-9);
}

// 3. step(nested) <= step(LLM only) + sum over units of the slowest rank's time in that unit. A generator's
// operator, or an encoder's with fewer than three warm-up units, may stand where something of stage costs
// that differ has no slack for it; then its unit costs up to the longest backbone operator more
// (docs/schedule.md, "Where this differs").
void expect_bounded(const Schedule& schedule, const Costs& costs) {
  double loose = 0;
  for (const auto& unit : schedule.units) {
    const auto& module = schedule.step.modules[size_t(unit.module)];
    bool few = module.trained && module.warmup_units != 0 && module.warmup_units < 3;
    loose += schedule.step.has(Module::generator) || few;
  }
  Reckoned durations(schedule, costs);
  EXPECT_LE(excess(schedule, durations), loose * longest_backbone(costs));
}

// 5. Live encoder units <= W and live generator units <= 1. LLM in-flight is the base's, and with generators
// at most k chunk-forwards more; in a V, 2P + 2k.
void expect_memory_bounded(const Schedule& schedule, const Costs& costs) {
  const Step& step = schedule.step;
  auto base = base_table(without_nesting(step));
  auto peaks = peak_live(schedule);
  bool generates = step.has(Module::generator);
  int64_t unit = generates ? step.unit_size(Module::generator) : 0;
  int64_t more = step.base == Base::gpipe ? 0 : unit;
  // A unit that is in two groups of the interleaved order comes to an end a group later.
  if (step.base == Base::interleaved && generates && step.group_size() % unit != 0)
    more += (step.chunks - 1) * step.group_size();
  for (int rank = 0; rank < schedule.ranks(); ++rank) {
    auto held = most_held(schedule, rank), before = most_held(base, rank);
    EXPECT_EQ(peaks[size_t(rank)].in_flight, held.forwards) << "rank " << rank;
    int64_t most = before.forwards + more;
    if (is_v_shaped(step.base) && generates) most = 2 * (step.ranks + unit);
    if (!generates)
      EXPECT_EQ(held.forwards, before.forwards) << "rank " << rank;
    else
      EXPECT_LE(held.forwards, most) << "rank " << rank;
    for (size_t n = 0; n < step.modules.size(); ++n) {
      const auto& module = step.modules[n];
      SCOPED_TRACE(concat(module.name, " on rank ", rank));
      EXPECT_LE(peaks[size_t(rank)].units[n], double(held.shares[n]) * (1 + 1e-9));
      bool keeps_nothing = module.kind == Module::generator || !module.trained;
      int64_t least = keeps_nothing ? 1 : module.warmup_units == 0 ? 3 : module.warmup_units;
      if (module.warmup_units == 0 && held.shares[n] > least) {  // more where it takes more
        Step fewest = step;
        fewest.modules = {module};
        fewest.modules[0].warmup_units = 1;
        if (generates) fewest.modules.push_back(one_item_each("any", Module::generator, step.microbatches));
        Costs nominal = costs;
        nominal.modules.clear();
        auto named = least_warmup_named(fewest, nominal);
        ASSERT_TRUE(named);
        least = named->second;
      }
      EXPECT_LE(held.shares[n], least);
    }
  }
}

// Shards of the random steps, so that they run side by side.
class RandomSteps : public testing::TestWithParam<int> {};
constexpr int kShards = 8;

TEST_P(RandomSteps, KeepEveryPropertyOfNesting) {
  uint64_t seed = from_environment("BIGMAC_FUZZ_SEED", kSeed);
  uint64_t cases = from_environment("BIGMAC_FUZZ_CASES", 10000);
  for (uint64_t n = uint64_t(GetParam()); n < cases; n += kShards) {
    Random random(seed + n);
    SCOPED_TRACE(concat("again with BIGMAC_FUZZ_SEED=", seed + n, " BIGMAC_FUZZ_CASES=1"));
    auto [step, costs] = random_case(random);
    SCOPED_TRACE(describe(step));
    auto schedule = make_schedule(step, costs);
    expect_base_left(schedule);
    expect_consistent_cuts(schedule);
    expect_bounded(schedule, costs);
    expect_memory_bounded(schedule, costs);
    double length = Oracle(schedule).length(Reckoned(schedule, costs));
    EXPECT_NEAR(simulate(schedule, costs).length(), length, 1e-9 * length);
    if (HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(, RandomSteps, testing::Range(0, kShards));

class EveryNestedBase : public testing::TestWithParam<Base> {
 protected:
  Step random_step(Random& random, bool encoder, bool generator) const {
    auto chunks = chunks_of(GetParam(), 6);
    int64_t ranks = integer(random, 1, 8);
    Step step =
        step_of_base(GetParam(), ranks, chunks[size_t(integer(random, 0, int64_t(chunks.size()) - 1))],
                     integer(random, ranks, 8 * ranks));
    step = nested(step, encoder, generator);
    double sigma = uniform(random, 0, 2);
    for (auto& module : step.modules) module.items = random_items(random, step.microbatches, sigma, 3);
    return step;
  }
  bool is(Base base) const { return GetParam() == base; }
};

struct Tally {
  int64_t steps = 0, longer = 0;
  double worst = 0;  // as a share of the step without nesting

  void add(double more) {
    ++steps;
    longer += more > 0;
    worst = std::max(worst, more);
  }
  double share() const { return double(longer) / double(steps); }
};

TEST_P(EveryNestedBase, IsLengthenedByEncodersByNoMoreThanTheSlowestRankOfEachUnit) {
  Random random(kSeed);
  for (int round = 0; round < 2000; ++round) {
    Step step = random_step(random, true, false);
    SCOPED_TRACE(concat(describe(step), " round=", round));
    auto costs = random_stage_costs(random, step);
    auto schedule = make_schedule(step, costs);
    EXPECT_LE(excess(schedule, Reckoned(schedule, costs)), 0);
    if (HasFailure()) return;
  }
}

TEST_P(EveryNestedBase, OfEqualStagesIsLengthenedByNoMoreThanTheSlowestRankOfEachUnit) {
  Random random(kSeed);
  for (int round = 0; round < 2000; ++round) {
    Step step = random_step(random, round % 3 > 0, round % 3 < 2);
    step.generator_unit = integer(random, 0, step.ranks);
    SCOPED_TRACE(concat(describe(step), " round=", round));
    Costs costs{
        .forward = {1}, .backward = {2}, .modules = {{uniform(random, 0.01, 2), uniform(random, 0.01, 4)}}};
    auto schedule = make_schedule(step, costs);
    EXPECT_LE(excess(schedule, Reckoned(schedule, costs)), 0);
    if (HasFailure()) return;
  }
}

// A generator's operator stands behind what started before the last stage's forward had ended, and that may
// end later than the forward, by less than one operator; with uneven stages the last stage's backward may
// have no slack for it. The shares here are what docs/schedule.md gives, and room for another random library.
TEST_P(EveryNestedBase, OfUnevenStagesIsLengthenedByAGeneratorByLittleMoreAndSeldom) {
  Random random(kSeed);
  Tally tally;
  for (int round = 0; round < 2000; ++round) {
    Step step = random_step(random, false, true);
    step.generator_unit = integer(random, 0, step.ranks);
    SCOPED_TRACE(concat(describe(step), " round=", round));
    auto costs = random_stage_costs(random, step);
    auto schedule = make_schedule(step, costs);
    Reckoned durations(schedule, costs);
    double more = excess(schedule, durations);
    EXPECT_LE(more, double(schedule.units.size()) * longest_backbone(costs));
    tally.add(more / Oracle(strip(schedule)).length(durations));
    if (HasFailure()) return;
  }
  EXPECT_LT(tally.share(), is(Base::gpipe) ? 1e-9 : is_v_shaped(GetParam()) ? 0.08 : 0.01);
  EXPECT_LT(tally.worst, 0.12);
}

// Where durations differ from what the cuts were looked for with, an item may become ready for stage 0 later
// than the forward that needs it would have been, by what the durations have drifted apart since the cut; no
// bound on order alone holds.
TEST_P(EveryNestedBase, OfOperatorsThatAreOffByAFifthIsLengthenedByAFewPerCentAtWorst) {
  Random random(kSeed);
  Tally tally;
  for (int round = 0; round < 2000; ++round) {
    Step step = random_step(random, round % 3 > 0, round % 3 < 2);
    SCOPED_TRACE(concat(describe(step), " round=", round));
    Costs nominal{
        .forward = {1}, .backward = {2}, .modules = {{uniform(random, 0.01, 2), uniform(random, 0.01, 4)}}};
    auto schedule = make_schedule(step, nominal);
    std::vector<double> factors;
    for (int64_t n = 0; n < 4 * step.stages() * step.microbatches; ++n)
      factors.push_back(uniform(random, 0.8, 1.2));
    Reckoned reckoned(schedule, nominal);
    auto duration = [&](int rank, const Operator& op) {
      if (op.module != Module::backbone) return reckoned(rank, op);
      int64_t number = int64_t(op.phase) * step.stages() + stage_in_words(step, rank, op.chunk);
      return reckoned(rank, op) * factors[size_t(number * step.microbatches + op.index)];
    };
    tally.add(excess(schedule, duration) / Oracle(strip(schedule)).length(duration));
  }
  EXPECT_LT(tally.share(), 0.08);
  EXPECT_LT(tally.worst, 0.08);
}

// 4. With equal costs, step(nested) = the ideal of unlimited memory. A unit's items must divide evenly, so
// every microbatch has P of them where a generator's unit is smaller than P. Where a path crosses a cut with
// a message instead of an operator of the unit, the step is even shorter: with DualPipeV, with I and F that
// differ, and with units smaller than P.
TEST_P(EveryNestedBase, EqualsTheIdealOfUnlimitedMemoryWithEqualCosts) {
  Random random(kSeed);
  for (int64_t ranks = 1; ranks <= 8; ++ranks)
    for (int64_t chunks : chunks_of(GetParam(), 4))
      for (int64_t units : {2, 3, 4, 8})
        for (int modules = 1; modules <= 3; ++modules)
          for (int64_t unit : {ranks, std::max<int64_t>(1, ranks / 2), int64_t{1}}) {
            bool generates = modules & 2;
            if (!generates && unit != ranks) continue;
            Step step =
                nested(step_of_base(GetParam(), ranks, chunks, units * ranks), modules & 1, generates);
            step.generator_unit = unit;
            if (unit != ranks) {
              auto& items = step.modules.back().items;
              items.clear();
              for (int64_t m = 0; m < step.microbatches; ++m)
                for (int64_t n = 0; n < ranks; ++n) items.push_back({uint32_t(m), 1.0 / double(ranks)});
            }
            SCOPED_TRACE(describe(step));
            for (auto [forward, backward] :
                 {std::pair{1.0, 2.0}, {0.37, 0.74}, {1.0, 1.0}, {0.1, 0.7}, {2.3, 0.4}}) {
              // F = I = W is what the V shapes are made for.
              if (is_v_shaped(GetParam()) && backward != 2 * forward) continue;
              Costs costs{.forward = {forward}, .backward = {backward}};
              double work = 0;
              for (size_t n = 0; n < step.modules.size(); ++n) {
                costs.modules.push_back({uniform(random, 0.01, 5), uniform(random, 0.01, 5)});
                work += double(step.microbatches) * (costs.modules[n].forward + costs.modules[n].backward);
              }
              auto base = base_table(without_nesting(step));
              double ideal = Oracle(base).length(Reckoned(base, costs)) + work / double(ranks);
              auto schedule = make_schedule(step, costs);
              auto timeline = simulate(schedule, costs);
              bool thirds = backward == 2 * forward, whole = !step.splits_backward();
              double above = 0;
              if (unit != ranks && is(Base::interleaved) && !thirds) above = std::max(forward, backward);
              if (unit == 1 && is_v_shaped(GetParam()) && ranks >= 7) above = forward;  // orders.h
              EXPECT_LE(timeline.length(), ideal * (1 + 1e-9) + above)
                  << "f=" << forward << " b=" << backward;
              if (unit != ranks || is(Base::dualpipe_v) || !(thirds || whole)) continue;
              EXPECT_NEAR(timeline.length(), ideal, 1e-9 * ideal) << "f=" << forward << " b=" << backward;
              EXPECT_NEAR(report(schedule, costs, timeline).ratio_to_ideal().value(), 1, 1e-9);
            }
            if (HasFailure()) return;
          }
}

// 5. "whatever M is"
TEST_P(EveryNestedBase, HoldsTheSameHoweverManyMicrobatches) {
  for (int64_t ranks : {3, 4})
    for (int64_t unit : {int64_t{1}, ranks}) {
      std::vector<std::vector<PeakLive>> peaks;
      for (int64_t units : {6, 16, 64}) {
        Step step = nested(step_of_base(GetParam(), ranks, chunks_of(GetParam(), 2).back(), ranks * units),
                           true, true);
        step.generator_unit = unit;
        peaks.push_back(peak_live(make_schedule(step)));
        for (const auto& peak : peaks.back()) {
          EXPECT_LE(peak.units[1], 1);
          if (is(Base::gpipe))  // holds all microbatches, and so their encoders
            EXPECT_EQ(peak.units[0], double(units));
          else
            EXPECT_LE(peak.units[0], 3);
        }
      }
      if (is(Base::gpipe)) continue;
      EXPECT_EQ(peaks[0], peaks[1]) << "P=" << ranks << " k=" << unit;
      EXPECT_EQ(peaks[1], peaks[2]) << "P=" << ranks << " k=" << unit;
    }
}

INSTANTIATE_TEST_SUITE_P(, EveryNestedBase, testing::ValuesIn(kBases), [](const auto& base) {
  std::string text(name(base.param));
  std::erase(text, '-');
  return text;
});

}  // namespace
}  // namespace bigmac
