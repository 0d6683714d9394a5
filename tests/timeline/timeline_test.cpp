#include "bigmac/timeline/timeline.h"

#include <gtest/gtest.h>

namespace bigmac {
namespace {

// Two ranks from 10 to 20. Rank 0: 2 transfer, 3 busy, 1 wait, 2 busy, 2 idle. Rank 1: 4 busy, 6 idle.
Timeline two_ranks() {
  Timeline timeline{.start = 10, .end = 20, .rows = std::vector<Timeline::Row>(2)};
  auto f = backbone_forward(0, 0), b = backbone_backward(0, 0);
  timeline.rows[0].operators = {{f, 12, 15}, {b, 16, 18}};
  timeline.rows[0].intervals = {{Spent::transfer, 1, f, 10, 12}, {Spent::wait, 1, b, 15, 16}};
  timeline.rows[1].operators = {{f, 13, 17}};
  return timeline;
}

TEST(RankTimes, SplitARanksShareOfTheStepAndAddUpToIt) {
  auto timeline = two_ranks();
  auto times = rank_times(timeline);
  ASSERT_EQ(times.size(), 2);
  EXPECT_EQ(times[0].busy, 5);
  EXPECT_EQ(times[0].transfer, 2);
  EXPECT_EQ(times[0].wait, 1);
  EXPECT_EQ(times[0].idle, 2);
  EXPECT_EQ(times[1].busy, 4);
  EXPECT_EQ(times[1].idle, 6);
  for (const auto& time : times)
    EXPECT_EQ(time.busy + time.transfer + time.wait + time.idle, timeline.length());
}

TEST(Bubble, IsEverythingOutsideOperatorsByBothDefinitions) {
  EXPECT_DOUBLE_EQ(idle_over_total(two_ranks()), 11.0 / 20);
  EXPECT_DOUBLE_EQ(idle_over_busy(two_ranks()), 11.0 / 9);
}

TEST(Bubble, OfAnEmptyTimelineIsZero) {
  EXPECT_EQ(idle_over_total({}), 0);
  EXPECT_EQ(idle_over_busy({}), 0);
  EXPECT_TRUE(rank_times({}).empty());
}

}  // namespace
}  // namespace bigmac
