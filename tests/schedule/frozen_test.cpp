// Frozen encoders: forwards and no backwards, in every arrangement that has encoders.
#include <gtest/gtest.h>

#include "bigmac/schedule/base.h"
#include "bigmac/schedule/check.h"
#include "bigmac/schedule/disttrain.h"
#include "bigmac/schedule/make.h"
#include "bigmac/schedule/spread.h"
#include "bigmac/simulate/memory.h"
#include "bigmac/simulate/simulate.h"
#include "tests/schedule/support.h"

namespace bigmac {
namespace {

constexpr Arrangement kWithEncoders[] = {Arrangement::nested,      Arrangement::nested_fill,
                                         Arrangement::three_phase, Arrangement::optimus,
                                         Arrangement::megatron,    Arrangement::disttrain};
const std::vector<std::string> kNone;

// All P <= 6, V <= 3, M <= 13 and bases; disttrain has a base and stages of its own.
template <class Visit>
void for_each_step(Arrangement arrangement, Visit&& visit) {
  bool distributes = arrangement == Arrangement::disttrain;
  for (Base base : kBases)
    for (int64_t ranks = distributes ? 2 : 1; ranks <= 6; ++ranks)
      for (int64_t chunks : chunks_of(base, 3))
        for (int64_t microbatches = 1; microbatches <= 13; ++microbatches) {
          if (distributes && base != Base::one_f_one_b) continue;
          Step step = step_of_base(base, ranks, chunks, microbatches);
          step.arrangement = arrangement;
          SCOPED_TRACE(describe(step));
          visit(step);
          if (testing::Test::HasFailure()) return;
        }
}

NestedModule frozen(NestedModule module) {
  module.trained = false;
  return module;
}

NestedModule image_of(const Step& step) {
  return one_item_each("image", Module::encoder, step.microbatches);
}
NestedModule audio_of(const Step& step) {
  return one_item_each("audio", Module::encoder, step.microbatches);
}

Step with(Step step, std::vector<NestedModule> modules) {
  step.modules = std::move(modules);
  return step;
}

Costs costs_in(const Schedule& schedule, const Step& declared, const Costs& costs) {
  return schedule.step.stage_ranks.empty() ? costs
                                           : costs_for_stages(declared, schedule.step.stages(), costs);
}

double length(const Step& step, const Costs& costs) {
  auto schedule = make_schedule(step, costs);
  return simulate(schedule, costs_in(schedule, step, costs)).length();
}

int64_t operators_of(const Schedule& schedule, size_t module, Phase phase) {
  return std::count_if(schedule.operators.begin(), schedule.operators.end(), [&](const Operator& op) {
    return op.module != Module::backbone && op.phase == phase &&
           schedule.shares.list[op.index].module == int64_t(module);
  });
}

// Every row without one module's operators, as text.
std::vector<std::vector<std::string>> rows_without(const Schedule& schedule, int32_t module) {
  std::vector<std::vector<std::string>> rows;
  for (int rank = 0; rank < schedule.ranks(); ++rank) {
    auto& row = rows.emplace_back();
    for (const auto& op : schedule.row(rank))
      if (op.module == Module::backbone || schedule.shares.list[op.index].module != module)
        row.push_back(describe(schedule, op));
  }
  return rows;
}

class Frozen : public testing::TestWithParam<Arrangement> {
 protected:
  bool is(Arrangement arrangement) const { return GetParam() == arrangement; }
};

TEST_P(Frozen, EncodersHaveEveryForwardAndNoBackwardInATableThatRuns) {
  for_each_step(GetParam(), [&](const Step& step) {
    auto schedule = make_schedule(with(step, {frozen(image_of(step))}), {.modules = {{0.5, 1}}});
    for (auto sends : {Sends::buffered, Sends::blocking}) EXPECT_EQ(check(schedule, sends), kNone);
    EXPECT_EQ(operators_of(schedule, 0, Phase::forward), int64_t(schedule.shares.list.size()));
    EXPECT_EQ(operators_of(schedule, 0, Phase::backward), 0);
    for (const auto& unit : schedule.units) EXPECT_EQ(unit.phase, Phase::forward);
    for (const auto& peak : peak_live(schedule)) EXPECT_LE(peak.units[0], 1);
    if (!schedule.step.stage_ranks.empty()) return;
    Oracle oracle(schedule, Sends::blocking);
    EXPECT_TRUE(oracle.complete() && !oracle.deadlocks());
    EXPECT_EQ(rows_of(strip(schedule)), rows_of(base_table(without_nesting(step))));
  });
}

TEST_P(Frozen, EncodersBesideTrainedOnesAndGeneratorsRunToTheEnd) {
  Random random(kSeed);
  std::vector<Step> steps;
  for_each_step(GetParam(), [&](const Step& step) { steps.push_back(step); });
  for (int round = 0; round < 400; ++round) {
    Step step = steps[size_t(integer(random, 0, int64_t(steps.size()) - 1))];
    step = with(step, {image_of(step), audio_of(step), one_item_each("picture", Module::generator, 1)});
    step.modules[size_t(round % 2)].trained = false;
    for (auto& module : step.modules) module.items = random_items(random, step.microbatches, 1, 3);
    step.generator_unit = integer(random, 0, step.ranks);
    auto costs = random_stage_costs(random, step);
    if (integer(random, 0, 2) == 0) costs.latency = uniform(random, 0, 2);
    SCOPED_TRACE(concat("round ", round, " ", describe(step)));
    if (is(Arrangement::disttrain) && step.ranks < 3) continue;
    auto schedule = make_schedule(step, costs);
    auto sends = is(Arrangement::megatron) ? Sends::buffered : Sends::blocking;
    EXPECT_EQ(check(schedule, sends), kNone);
    int64_t shares[2] = {};
    for (const auto& share : schedule.shares.list)
      if (share.module < 2) ++shares[share.module];
    for (size_t n : {0, 1}) {
      EXPECT_EQ(operators_of(schedule, n, Phase::forward), shares[n]);
      EXPECT_EQ(operators_of(schedule, n, Phase::backward), step.modules[n].trained ? shares[n] : 0);
    }
    if (HasFailure()) return;
  }
}

TEST_P(Frozen, EncodersMakeNoStepLongerThanTrainedOnes) {
  Costs costs{.modules = {{0.5, 1}}};
  for_each_step(GetParam(), [&](const Step& step) {
    double trained = length(with(step, {image_of(step)}), costs);
    double without_backward = length(with(step, {image_of(step)}), {.modules = {{0.5, 0}}});
    double found = length(with(step, {frozen(image_of(step))}), costs);
    EXPECT_LE(found, trained * (1 + 1e-9));
    // Neither than those whose backward takes nothing.
    if (!is(Arrangement::nested_fill)) {
      EXPECT_LE(found, without_backward * (1 + 1e-9));
    }
  });
}

INSTANTIATE_TEST_SUITE_P(, Frozen, testing::ValuesIn(kWithEncoders), [](const auto& test) {
  std::string text(name(test.param));
  std::erase(text, '-');
  return text;
});

// Cuts are by module, and rows of three phases and Megatron too; a fill and the splits of disttrain are
// searched for with all modules together.
TEST(FrozenBesideOthers, LeavesTheirTablesAsTheyAre) {
  Random random(kSeed);
  for (auto arrangement : {Arrangement::nested, Arrangement::three_phase, Arrangement::megatron})
    for_each_step(arrangement, [&](const Step& step) {
      if (integer(random, 0, 1) == 0) return;
      bool generates = integer(random, 0, 1) == 0;
      Step before = with(step, {image_of(step)});
      if (generates) before.modules.push_back(one_item_each("picture", Module::generator, step.microbatches));
      auto costs = random_stage_costs(random, before);
      costs.modules.clear();
      Step after = before;
      after.modules.push_back(frozen(audio_of(step)));
      EXPECT_EQ(rows_without(make_schedule(after, costs), int32_t(after.modules.size()) - 1),
                rows_without(make_schedule(before, costs), -1));
    });
}

// W plays no part.
TEST(FrozenNested, LengthensAStepOfEqualStagesByAForwardAUnit) {
  for_each_step(Arrangement::nested, [](const Step& step) {
    Costs costs{.modules = {{0.5, 7}}};
    int64_t units = (step.microbatches + step.ranks - 1) / step.ranks;
    double bound = length(without_nesting(step), costs) + 0.5 * double(units);
    for (int64_t warmup : {0, 1, 5}) {
      Step nested_step = with(step, {frozen(image_of(step))});
      nested_step.modules[0].warmup_units = warmup;
      double found = length(nested_step, costs);
      EXPECT_LE(found, bound * (1 + 1e-9));
      // Where the last unit is not full, or in a V of few microbatches, bubbles may take some of it.
      if (step.microbatches % step.ranks == 0 && !is_v_shaped(step.base)) {
        EXPECT_DOUBLE_EQ(found, bound);
      }
    }
  });
}

// nest.h: a longest backbone operator before what needs it, on all ranks.
TEST(FrozenNested, StandsALongestOperatorBeforeWhatNeedsIt) {
  Random random(kSeed);
  for_each_step(Arrangement::nested, [&](Step step) {
    step.modules = {frozen(image_of(step))};
    auto costs = random_stage_costs(random, step);
    costs.modules.clear();
    auto schedule = make_schedule(step, costs);
    auto left = strip(schedule);
    Reckoned durations(left, costs);
    auto starts = Oracle(left).starts(durations);
    double margin = 1e-9 * starts.back();
    for (const auto& unit : schedule.units) {
      double needed = HUGE_VAL;
      for (int64_t p = 0; p < left.row_begin[1]; ++p)
        if (const auto& op = left.operators[size_t(p)]; op.phase == Phase::forward && op.chunk == 0)
          if (op.index / uint32_t(step.ranks) == unit.index) needed = std::min(needed, starts[size_t(p)]);
      for (int rank = 0; rank < schedule.ranks(); ++rank) {
        auto row = schedule.row(rank);
        int64_t before = std::count_if(row.begin(), row.begin() + unit.place[rank],
                                       [](const Operator& op) { return op.module == Module::backbone; });
        if (unit.index == 0) {
          EXPECT_EQ(before, 0);
        }
        if (before == 0) continue;
        double start = starts[size_t(left.row_begin[rank] + before - 1)];
        EXPECT_LT(start, needed - longest_backbone(costs) + margin)
            << "unit " << unit.index << " rank " << rank;
      }
    }
  });
}

// What waits on the rank of stage 0 at most, in items of size 1.
double most_waiting(const Schedule& schedule, const Costs& costs) {
  double most = 0;
  for (const auto& rank : peak_memory(schedule, simulate(schedule, costs), {.item_out = {1}}))
    most = std::max(most, rank.peak);
  return most;
}

TEST(FrozenNested, LetsOutputsOfTwoUnitsWaitHoweverManyMicrobatches) {
  Costs costs{.modules = {{0.5, 1}}};
  for (Base base : kBases)
    for (int64_t ranks = 2; ranks <= 6; ++ranks)
      for (int64_t chunks : chunks_of(base, 3))
        for (int64_t microbatches : {13, 40, 97}) {
          Step step = step_of_base(base, ranks, chunks, microbatches);
          step.arrangement = Arrangement::nested;
          SCOPED_TRACE(describe(step));
          step.modules = {frozen(image_of(step))};
          EXPECT_LE(most_waiting(make_schedule(step, costs), costs), 2.0 * double(ranks));
          // Three phases let all of them wait: what would happen without places of their own.
          step.arrangement = Arrangement::three_phase;
          EXPECT_EQ(most_waiting(make_schedule(step, costs), costs), double(microbatches));
        }
}

TEST(FrozenFill, LetsNoMoreOutputsWaitThanTheUnitsThatTheStepAsksFor) {
  Random random(kSeed);
  for (int round = 0; round < 300; ++round) {
    Base base = kBases[round % 6];
    auto chunks = chunks_of(base, 3);
    Step step =
        step_of_base(base, integer(random, 2, 6),
                     chunks[size_t(integer(random, 0, int64_t(chunks.size()) - 1))], integer(random, 1, 40));
    step.arrangement = Arrangement::nested_fill;
    step.modules = {{"image", Module::encoder, {}}};
    for (int64_t m = 0; m < step.microbatches; ++m)
      step.modules[0].items.insert(step.modules[0].items.end(), size_t(integer(random, 1, 6)),
                                   {uint32_t(m), 1});
    step.modules[0].trained = false;
    step.modules[0].warmup_units = integer(random, 0, 4);
    SCOPED_TRACE(concat("round ", round, " ", describe(step)));
    double unit = double(step.ranks) * uniform(random, 0.1, 1);
    Costs costs{.modules = {{unit / 4, 0}}};
    auto schedule = make_schedule(step, costs);
    EXPECT_EQ(check(schedule, Sends::blocking), kNone);
    int64_t warmup = step.modules[0].warmup_units;
    int64_t most = schedule.units.empty() ? (warmup == 0 ? 3 : warmup) + 1 : 2;  // else it is nesting's own
    auto sizes = unit_sizes(step, spread(step));
    EXPECT_LE(most_waiting(schedule, costs), double(most * step.ranks) * sizes[0] * (1 + 1e-9));
    EXPECT_LE(simulate(schedule, costs).length(), [&] {
      Step nested = step;
      nested.arrangement = Arrangement::nested;
      return length(nested, costs);
    }());
    if (HasFailure()) return;
  }
}

TEST(FrozenCheck, TellsABackwardThatAFrozenEncoderDoesNotHave) {
  Step step = nested_step(2, 1, 4, true, false);
  auto trained = make_schedule(step);
  trained.step.modules[0].trained = false;
  auto problems = check(trained);
  ASSERT_FALSE(problems.empty());
  EXPECT_TRUE(contains(problems[0], "image B unit 0")) << problems[0];
  EXPECT_TRUE(contains(problems[0], "'image' is frozen and has no backward")) << problems[0];

  step.modules[0].trained = false;
  auto schedule = make_schedule(step);
  auto with_unit = schedule;
  with_unit.units.push_back(with_unit.units.back());
  with_unit.units.back().phase = Phase::backward;
  problems = check(with_unit);
  ASSERT_FALSE(problems.empty());
  EXPECT_TRUE(contains(problems[0], "a frozen encoder has no backward")) << problems[0];

  schedule.step.modules[0].trained = true;
  problems = check(schedule);
  ASSERT_FALSE(problems.empty());
  EXPECT_TRUE(contains(problems[0], "misses image B")) << problems[0];
}

TEST(FrozenCosts, HaveNoBackwardWhateverIsGiven) {
  Step step = nested_step(2, 1, 4, true, false);
  step.modules[0].trained = false;
  Costs costs{.modules = {{0.5, 1, 0.1, 0.2}}};
  auto found = costs_of_module(step, costs, 0);
  EXPECT_EQ(found.forward, 0.5);
  EXPECT_EQ(found.least_forward, 0.1);
  EXPECT_EQ(found.backward, 0);
  EXPECT_EQ(found.least_backward, 0);
  auto schedule = make_schedule(step);
  Durations durations(schedule, costs);
  EXPECT_EQ(durations(0, encoder_forward(0)), 0.5);
  EXPECT_EQ(durations(0, encoder_backward(0)), 0);
}

}  // namespace
}  // namespace bigmac
