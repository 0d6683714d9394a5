#include "bigmac/timeline/mean_costs.h"

#include <gtest/gtest.h>

#include "bigmac/schedule/make.h"
#include "bigmac/schedule/timing.h"
#include "tests/schedule/support.h"

namespace bigmac {
namespace {

// Runs the table with duration(rank, op), as a measurement would have it.
template <class Duration>
Timeline measured(const Schedule& schedule, const Duration& duration) {
  Timeline timeline;
  timeline.rows.resize(size_t(schedule.ranks()));
  std::vector<double> ends;
  run_table(schedule, Dependencies(schedule), duration, 0, ends,
            [&](int rank, const Operator& op, double start, double end) {
              timeline.rows[size_t(rank)].operators.push_back({op, start, end});
              timeline.end = std::max(timeline.end, end);
            });
  return timeline;
}

void expect_near(const std::vector<double>& a, const std::vector<double>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-9) << i;
}

TEST(MeanCosts, AreTheCostsThatTheTimelineWasMadeWith) {
  Random random(kSeed);
  for (Base base : kBases)
    for (int round = 0; round < 20; ++round) {
      Step step = nested(step_of_base(base, 3, chunks_of(base, 2).back(), 14), true, true);
      for (auto& module : step.modules) module.items = random_items(random, step.microbatches, 1, 3);
      SCOPED_TRACE(describe(step));
      auto costs = random_stage_costs(random, step);
      auto schedule = make_schedule(step);
      auto found = mean_costs(schedule, measured(schedule, Reckoned(schedule, costs)));
      expect_near(found.forward, costs.forward);
      expect_near(found.backward, costs.backward);
      if (base == Base::zb_h1 || base == Base::zb_v) expect_near(found.weight, costs.weight);
      ASSERT_EQ(found.modules.size(), 2u);
      EXPECT_NEAR(found.modules[0].forward, costs.modules[0].forward, 1e-9);
      EXPECT_NEAR(found.modules[0].backward, costs.modules[0].backward, 1e-9);
      // One operator; all of it counts as forward.
      EXPECT_NEAR(found.modules[1].forward, costs.modules[1].forward + costs.modules[1].backward, 1e-9);
      EXPECT_EQ(found.modules[1].backward, 0);
      EXPECT_EQ(found.latency, 0);
    }
}

TEST(MeanCosts, AverageOverMicrobatchesByStageAndOverItemsBySize) {
  Step step = nested_step(2, 1, 2, true, false);
  step.modules[0].items = {{0, 1}, {1, 3}};
  auto schedule = make_schedule(step);
  auto found = mean_costs(schedule, measured(schedule, [](int rank, const Operator& op) -> double {
                            if (op.module == Module::encoder)
                              return op.phase == Phase::forward ? 6 : 2 + 8 * rank;
                            return op.phase == Phase::forward ? 1 + rank + 2 * op.index : 10;
                          }));
  expect_near(found.forward, {2, 3});
  expect_near(found.backward, {10, 10});
  EXPECT_EQ(found.modules[0].forward, 12.0 / 4);   // per size: 6 for 1 and 6 for 3
  EXPECT_EQ(found.modules[0].backward, 12.0 / 4);  // 2 and 10
}

TEST(MeanCosts, OfAModuleThatRanNothingAreZero) {
  Step step = nested_step(2, 1, 2, true, true);
  step.modules[1].items.clear();
  auto schedule = make_schedule(step);
  auto found = mean_costs(schedule, measured(schedule, [](int, const Operator&) { return 1.0; }));
  EXPECT_EQ(found.modules[1].forward, 0);
  EXPECT_EQ(found.modules[0].forward, 1);
}

TEST(MeanCosts, OfAFrozenEncoderAreItsForwards) {
  Step step = nested_step(2, 1, 4, true, false);
  step.modules[0].trained = false;
  auto schedule = make_schedule(step);
  auto found = mean_costs(schedule, measured(schedule, [](int, const Operator&) { return 3.0; }));
  EXPECT_EQ(found.modules[0].forward, 3);
  EXPECT_EQ(found.modules[0].backward, 0);
}

// DualPipeV runs some backwards whole and some in two. Overlapped or fused, a whole one may take less than
// its parts; the split then follows their ratio.
TEST(MeanCosts, TakeWholeBackwardsForTheBackwardAndTheHalvesForItsSplit) {
  auto schedule = make_schedule(step_of_base(Base::dualpipe_v, 2, 2, 8));
  auto found = mean_costs(schedule, measured(schedule, [](int, const Operator& op) {
                            return op.phase == Phase::backward ? 2.0 : op.phase == Phase::weight ? 2.0 : 1.0;
                          }));
  for (double backward : found.backward) EXPECT_NEAR(backward, 2, 1e-9);
  for (double weight : found.weight) EXPECT_GE(weight, 1 - 1e-9);
  EXPECT_NEAR(*std::max_element(found.weight.begin(), found.weight.end()), 4.0 / 3, 1e-9);
  Durations usable(schedule, found);
  EXPECT_NEAR(usable.longest_backbone(), 2, 1e-9);
}

}  // namespace
}  // namespace bigmac
