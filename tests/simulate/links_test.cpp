#include "bigmac/simulate/links.h"

#include <gtest/gtest.h>

#include <map>

#include "bigmac/simulate/simulate.h"
#include "tests/simulate/links_support.h"

namespace bigmac {
namespace {

TEST(Links, ThatAreFreeGiveTheTimesOfSimulateForEveryArrangement) {
  Random random(kSeed);
  std::map<Arrangement, int> seen;
  for (int round = 0; round < 1400; ++round) {
    Arrangement arrangement = kArrangements[round % 7];
    auto schedule = random_table(random, arrangement, {.modules = {{1, 2}}});
    if (!schedule) continue;
    ++seen[arrangement];
    SCOPED_TRACE(concat("seed ", kSeed, " round ", round, " ", describe(schedule->step)));
    Costs costs = random_costs_of(random, schedule->step, 0);
    costs.latency = integer(random, 0, 1) * uniform(random, 0, 1);
    auto plain = simulate(*schedule, costs);
    auto linked = simulate(*schedule, costs, Links{});
    EXPECT_EQ(linked.start, plain.start);
    EXPECT_EQ(linked.end, plain.end);
    for (size_t rank = 0; rank < plain.rows.size(); ++rank) {
      const auto &expected = plain.rows[rank].operators, &found = linked.rows[rank].operators;
      ASSERT_EQ(found.size(), expected.size());
      for (size_t p = 0; p < found.size(); ++p) {
        EXPECT_EQ(found[p].op, expected[p].op);
        EXPECT_EQ(found[p].start, expected[p].start);
        EXPECT_EQ(found[p].end, expected[p].end);
      }
    }
    if (HasFailure()) return;
  }
  for (auto arrangement : kArrangements) EXPECT_GT(seen[arrangement], 50) << name(arrangement);
}

TEST(Links, StartEveryOperatorWhenTheReferenceSays) {
  Random random(kSeed);
  std::map<Exchange, int> compared;
  int released = 0;
  for (int round = 0; round < 600; ++round) {
    auto schedule = random_table(random, kArrangements[round % 7], {.modules = {{1, 2}}});
    if (!schedule || schedule->operators.size() > 250) continue;
    Exchange exchange = kExchanges[integer(random, 0, 2)];
    SCOPED_TRACE(
        concat("seed ", kSeed, " round ", round, " ", describe(schedule->step), " ", name(exchange)));
    Costs costs = random_costs_of(random, schedule->step, 0);
    costs.latency = integer(random, 0, 1) * 0.1;
    Links links = random_links(random, schedule->step, exchange);
    auto expected = LinksReference(*schedule, costs, links).starts();
    auto timeline = simulate(*schedule, costs, links);
    if (!expected) {
      EXPECT_EQ(exchange, Exchange::batched);
      ++released;
      continue;
    }
    ++compared[exchange];
    auto starts = starts_of(timeline);
    ASSERT_EQ(starts.size(), expected->size());
    for (size_t n = 0; n < starts.size(); ++n)
      EXPECT_NEAR(starts[n], (*expected)[n], 1e-9 * (1 + timeline.end));
    if (HasFailure()) return;
  }
  for (auto exchange : kExchanges) EXPECT_GT(compared[exchange], 80) << name(exchange);
  EXPECT_LT(released, 60);
}

TEST(Links, GiveThePublishedStepsOf1f1bWithLatency) {
  struct Case {
    int64_t ranks, microbatches;
    double hop, step;
  };
  for (const auto& c : {Case{4, 8, 0, 33}, Case{4, 8, 0.5, 41}, Case{8, 32, 0.25, 134}})
    for (auto exchange : {Exchange::overlapped, Exchange::in_order}) {
      auto schedule = make_schedule(backbone_step(c.ranks, 1, c.microbatches));
      auto length = [&](double latency, const Links& links) {
        return simulate(schedule, Costs{.latency = latency}, links).length();
      };
      Links links{.exchange = exchange};
      EXPECT_EQ(length(c.hop, links), c.step);
      links.inside.latency = c.hop;
      EXPECT_EQ(length(0, links), c.step);
      links.inside.latency = c.hop / 2;
      EXPECT_EQ(length(c.hop / 2, links), c.step);
      // A message of that length fills its link for less than an operator's time: no queue forms.
      links.inside = {0, c.hop / 1024};
      links.stage_bytes = 1024;
      EXPECT_EQ(length(0, links), c.step);
    }
}

TEST(Links, CostNothingBetweenChunksOfOneRank) {
  for (auto exchange : kExchanges) {
    Links slow{.exchange = exchange, .inside = {100, 1}, .between = {100, 1}, .stage_bytes = 1e6};
    for (int64_t chunks : {1, 2, 4})
      EXPECT_EQ(simulate(make_schedule(backbone_step(1, chunks, 6)), {}, slow).length(),
                18.0 * double(chunks));
    // The V turns on the last rank: three hops down, three up and the same way back.
    Step step = step_of_base(Base::zb_v, 4, 2, 1);
    Links hop{.exchange = exchange, .inside = {0.5, 0}};
    auto schedule = make_schedule(step);
    EXPECT_EQ(simulate(schedule, {}, hop).length() - simulate(schedule, {}).length(), 12 * 0.5);
  }
}

// One microbatch through four ranks on two nodes, there and back: 12 of work, and twice two hops inside and
// one between nodes.
TEST(Links, AreThoseOfTheRanksNodes) {
  auto schedule = make_schedule(backbone_step(4, 1, 1));
  for (auto exchange : kExchanges) {
    Links links{.exchange = exchange,
                .inside = {0.25, 0.001},
                .between = {1, 0.01},
                .node_of_rank = {0, 0, 1, 1},
                .stage_bytes = 100};
    double inside = 0.25 + 0.1, between = 1 + 1;
    EXPECT_DOUBLE_EQ(simulate(schedule, {}, links).length(), 12 + 2 * (2 * inside + between));
    links.node_of_rank = {3, 1, 3, 1};
    EXPECT_DOUBLE_EQ(simulate(schedule, {}, links).length(), 12 + 6 * between);
    links.node_of_rank = {};
    EXPECT_DOUBLE_EQ(simulate(schedule, {}, links).length(), 12 + 6 * inside);
  }
}

// Two images of one microbatch, 3 on rank 0 and 2 on rank 1, by hand: EF 2 on rank 1, 2 * 20 bytes to rank 0,
// F, F, B, B with a hop of 5 bytes each way, 2 * 20 bytes back, EB 4. Rank 0 is done by then.
TEST(Links, CarryItemsBySize) {
  Step step = nested_step(2, 1, 1, true, false);
  step.modules[0].items = {{0, 3}, {0, 2}};
  auto schedule = make_schedule(step);
  Links links{.inside = {0, 0.1}, .stage_bytes = 5, .item_bytes = {20}};
  double expected = 2 + 4 + 1 + 0.5 + 1 + 2 + 0.5 + 2 + 4 + 4;
  EXPECT_DOUBLE_EQ(simulate(schedule, {.modules = {{1, 2}}}, links).length(), expected);
}

// GPipe on two ranks: forwards take 1, their messages 2. Alone they would arrive at 3, 4, 5; behind one
// another at 3, 5, 7.
TEST(Links, NameTheWaitForMessagesThatStandBefore) {
  auto schedule = make_schedule(step_of_base(Base::gpipe, 2, 1, 3));
  Links links{.exchange = Exchange::in_order, .inside = {0, 0.02}, .stage_bytes = 100};
  auto timeline = simulate(schedule, {}, links);
  const auto& intervals = timeline.rows[1].intervals;
  ASSERT_EQ(intervals.size(), 3);
  auto expect = [](const Interval& found, Spent spent, int64_t m, double start, double end) {
    EXPECT_EQ(found.spent, spent);
    EXPECT_EQ(found.peer, 0);
    EXPECT_EQ(found.op, backbone_forward(0, m));
    EXPECT_DOUBLE_EQ(found.start, start);
    EXPECT_DOUBLE_EQ(found.end, end);
  };
  expect(intervals[0], Spent::wait, 0, 0, 3);
  expect(intervals[1], Spent::order, 1, 4, 5);
  expect(intervals[2], Spent::order, 2, 6, 7);
  auto times = rank_times(timeline);
  EXPECT_DOUBLE_EQ(times[1].order, 2);
  EXPECT_DOUBLE_EQ(times[1].bubble(), timeline.length() - 9 - 2);
  links.exchange = Exchange::overlapped;
  timeline = simulate(schedule, {}, links);
  EXPECT_DOUBLE_EQ(timeline.rows[1].operators[2].end, 6);
  EXPECT_EQ(rank_times(timeline)[1].order, 0);
}

TEST(Links, GetSlowerFromOverlappedToInOrderToBatched) {
  Random random(kSeed);
  int strictly = 0;
  for (int round = 0; round < 700; ++round) {
    auto schedule = random_table(random, kArrangements[round % 7], {.modules = {{1, 2}}});
    if (!schedule) continue;
    SCOPED_TRACE(concat("seed ", kSeed, " round ", round, " ", describe(schedule->step)));
    Costs costs = random_costs_of(random, schedule->step, 0);
    Links links = random_links(random, schedule->step, Exchange::overlapped);
    auto before = starts_of(simulate(*schedule, costs, links));
    for (auto exchange : {Exchange::in_order, Exchange::batched}) {
      links.exchange = exchange;
      auto timeline = simulate(*schedule, costs, links);
      auto starts = starts_of(timeline);
      for (size_t n = 0; n < starts.size(); ++n) EXPECT_GE(starts[n], before[n] - 1e-9 * timeline.end);
      strictly += starts != before;
      before = starts;
    }
    if (HasFailure()) return;
  }
  EXPECT_GT(strictly, 500);
}

TEST(Links, DelayNothingLessWhenTheyGetSlower) {
  Random random(kSeed);
  int compared = 0;
  for (int round = 0; round < 700; ++round) {
    auto schedule = random_table(random, kArrangements[round % 7], {.modules = {{1, 2}}});
    if (!schedule) continue;
    Costs costs = random_costs_of(random, schedule->step, 0);
    for (auto exchange : kExchanges) {
      SCOPED_TRACE(
          concat("seed ", kSeed, " round ", round, " ", describe(schedule->step), " ", name(exchange)));
      Links links = random_links(random, schedule->step, exchange);
      auto before = starts_of(simulate(*schedule, costs, links));
      Costs slower_costs = costs;
      double* figures[] = {&slower_costs.latency,       &links.inside.latency,        &links.between.latency,
                           &links.inside.time_per_byte, &links.between.time_per_byte, &links.stage_bytes};
      *figures[integer(random, 0, 5)] += uniform(random, 0, 1);
      if (!links.item_bytes.empty()) links.item_bytes[0] += uniform(random, 0, 10);
      auto timeline = simulate(*schedule, slower_costs, links);
      auto starts = starts_of(timeline);
      for (size_t n = 0; n < starts.size(); ++n) EXPECT_GE(starts[n], before[n] - 1e-9 * timeline.end);
      ++compared;
    }
    if (HasFailure()) return;
  }
  EXPECT_GT(compared, 1000);
}

TEST(Links, LeaveNoTimeUnnamedBetweenOperators) {
  Random random(kSeed);
  std::map<std::pair<Exchange, Spent>, int> seen;
  for (int round = 0; round < 2100; ++round) {
    auto schedule = random_table(random, kArrangements[round % 7], {.modules = {{1, 2}}});
    if (!schedule) continue;
    Exchange exchange = kExchanges[integer(random, 0, 2)];
    SCOPED_TRACE(
        concat("seed ", kSeed, " round ", round, " ", describe(schedule->step), " ", name(exchange)));
    Costs costs = random_costs_of(random, schedule->step, 0);
    auto timeline = simulate(*schedule, costs, random_links(random, schedule->step, exchange));
    for (int rank = 0; rank < schedule->ranks(); ++rank) {
      const auto& row = timeline.rows[size_t(rank)];
      double time = 0;
      size_t next = 0;
      auto take_intervals = [&](double until) {
        for (; next < row.intervals.size() && row.intervals[next].start < until; ++next) {
          const auto& interval = row.intervals[next];
          EXPECT_EQ(interval.start, time);
          EXPECT_GT(interval.end, interval.start);
          EXPECT_NE(interval.peer, rank);
          EXPECT_TRUE(interval.peer >= 0 || interval.spent == Spent::transfer);
          time = interval.end;
          ++seen[{exchange, interval.spent}];
        }
      };
      for (const auto& slice : row.operators) {
        take_intervals(slice.start);
        EXPECT_EQ(slice.start, time);
        time = slice.end;
      }
      take_intervals(timeline.end);
      EXPECT_EQ(next, row.intervals.size());
      EXPECT_LE(time, timeline.end);
    }
    for (const auto& time : rank_times(timeline)) {
      EXPECT_NEAR(time.busy + time.transfer + time.order + time.wait + time.idle, timeline.length(),
                  1e-9 * timeline.length());
      EXPECT_GE(time.idle, -1e-9 * timeline.length());
    }
    auto shares = time_shares(timeline);
    if (timeline.length() > 0) {
      EXPECT_NEAR(shares.busy + shares.transfer + shares.order + shares.bubble, 1, 1e-9);
    }
    if (HasFailure()) return;
  }
  EXPECT_EQ((seen[{Exchange::overlapped, Spent::order}]), 0);
  EXPECT_EQ((seen[{Exchange::overlapped, Spent::transfer}]), 0);
  EXPECT_EQ((seen[{Exchange::in_order, Spent::transfer}]), 0);
  EXPECT_EQ((seen[{Exchange::batched, Spent::order}]), 0);
  EXPECT_GT((seen[{Exchange::overlapped, Spent::wait}]), 100);
  EXPECT_GT((seen[{Exchange::in_order, Spent::order}]), 100);
  EXPECT_GT((seen[{Exchange::batched, Spent::transfer}]), 100);
}

}  // namespace
}  // namespace bigmac
