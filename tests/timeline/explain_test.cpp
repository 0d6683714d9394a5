#include "bigmac/timeline/explain.h"

#include <gtest/gtest.h>

#include "bigmac/schedule/make.h"
#include "bigmac/simulate/simulate.h"
#include "tests/schedule/support.h"

namespace bigmac {
namespace {

Step random_step(Random& random) {
  Step step = nested_step(integer(random, 1, 6), integer(random, 1, 3), integer(random, 1, 24), true, true);
  for (auto& module : step.modules) module.items = random_items(random, step.microbatches, 1, 3);
  return step;
}

// Each operator of the path begins when the one before it has ended and its message arrived, and the path's
// parts add up to the step.
TEST(CriticalPath, AddsUpToTheStep) {
  Random random(kSeed);
  for (int round = 0; round < 300; ++round) {
    Step step = random_step(random);
    SCOPED_TRACE(concat("seed ", kSeed, " round ", round, " ", describe(step)));
    Costs costs{.modules = {{0.5, 1}, {1, 2}}, .latency = integer(random, 0, 1) * 0.25};
    auto schedule = make_schedule(step, costs);
    auto timeline = simulate(schedule, costs);
    auto path = critical_path(schedule, timeline);
    ASSERT_FALSE(path.empty());
    double time = timeline.start;
    for (size_t i = 0; i < path.size(); ++i) {
      EXPECT_NEAR(path[i].slice.start, time + path[i].gap, 1e-9);
      EXPECT_EQ(path[i].cause == Cause::start, i == 0);
      bool message = i > 0 && path[i].cause == Cause::input && path[i].rank != path[i - 1].rank;
      EXPECT_NEAR(path[i].gap, message ? costs.latency : 0, 1e-9);
      time = path[i].slice.end;
    }
    EXPECT_NEAR(time, timeline.end, 1e-9);
  }
}

TEST(CriticalPath, GoesThroughTheSlowStage) {
  Step step = backbone_step(4, 1, 16);
  Costs costs{.forward = {1, 1, 3, 1}, .backward = {2, 2, 6, 2}};
  auto schedule = make_schedule(step);
  int64_t on_slow_rank = 0;
  for (const auto& part : critical_path(schedule, simulate(schedule, costs))) on_slow_rank += part.rank == 2;
  EXPECT_GE(on_slow_rank, 28);
}

TEST(LongestWaits, AddUpToTheIdleTimeAndAreSorted) {
  Random random(kSeed);
  for (int round = 0; round < 100; ++round) {
    Step step = random_step(random);
    SCOPED_TRACE(concat("seed ", kSeed, " round ", round, " ", describe(step)));
    Costs costs{.modules = {{0.5, 1}, {1, 2}}};
    auto schedule = make_schedule(step, costs);
    auto timeline = simulate(schedule, costs);
    auto waits = longest_waits(schedule, timeline, SIZE_MAX);
    auto times = rank_times(timeline);
    for (size_t rank = 0; rank < waits.size(); ++rank) {
      double sum = 0;
      for (size_t i = 0; i < waits[rank].size(); ++i) {
        sum += waits[rank][i].length();
        if (i > 0) {
          EXPECT_LE(waits[rank][i].length(), waits[rank][i - 1].length());
        }
      }
      EXPECT_NEAR(sum, times[rank].idle, 1e-6);
    }
  }
}

// One picture 60 times larger than the others: all ranks wait for its forward.
TEST(LongestWaits, NameTheItemThatWasLate) {
  Step step = nested_step(4, 1, 16, true, false);
  step.modules[0].items[6].size = 60;
  Costs costs{.modules = {{1, 2}}};
  auto schedule = make_schedule(step, costs);
  auto waits = longest_waits(schedule, simulate(schedule, costs), 1);
  const auto& large = schedule.shares.list;
  int named = 0;
  for (const auto& rank : waits) {
    ASSERT_EQ(rank.size(), 1u);
    if (!rank[0].culprit || rank[0].culprit->slice.op.module != Module::encoder) continue;
    EXPECT_EQ(item_list(schedule, large[rank[0].culprit->slice.op.index]), "6.0");
    EXPECT_GE(rank[0].culprit_time, 0.5 * rank[0].length());
    ++named;
  }
  EXPECT_EQ(named, 3);
}

}  // namespace
}  // namespace bigmac
