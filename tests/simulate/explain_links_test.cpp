#include <gtest/gtest.h>

#include <map>

#include "bigmac/simulate/links.h"
#include "bigmac/timeline/explain.h"
#include "tests/simulate/support.h"

namespace bigmac {
namespace {

// Every message takes 0.25; where messages queue 1.05, so that they do.
Links even_links(Exchange exchange) {
  return {.exchange = exchange,
          .inside = {0.05, 0.002},
          .stage_bytes = exchange == Exchange::in_order ? 500.0 : 100.0};
}

TEST(CriticalPath, GoesByWayOfMessagesAndExchanges) {
  Random random(kSeed);
  std::map<Exchange, int> messages, exchanges, queued;
  for (int round = 0; round < 300; ++round) {
    Exchange exchange = Exchange(round % 3);
    Step step = backbone_step(integer(random, 2, 6), integer(random, 1, 3), integer(random, 2, 24));
    SCOPED_TRACE(concat("seed ", kSeed, " round ", round, " ", describe(step), " ", name(exchange)));
    Costs costs = random_costs_of(random, step, 0.1);
    auto schedule = make_schedule(step, costs);
    auto timeline = simulate(schedule, costs, even_links(exchange));
    auto path = critical_path(schedule, timeline);
    ASSERT_FALSE(path.empty());
    EXPECT_EQ(path[0].cause, Cause::start);
    double time = timeline.start;
    for (size_t i = 0; i < path.size(); ++i) {
      EXPECT_NEAR(path[i].slice.start, time + path[i].gap, 1e-9);
      time = path[i].slice.end;
      if (i == 0) continue;
      if (path[i].cause == Cause::row) {
        EXPECT_EQ(path[i].rank, path[i - 1].rank);
        // With two chunks a rank, an exchange may send two messages to one peer.
        bool blocks = exchange == Exchange::batched && path[i].gap > 1e-9;
        if (blocks) {
          EXPECT_TRUE(std::abs(path[i].gap - 0.25) < 1e-9 || std::abs(path[i].gap - 0.45) < 1e-9);
        } else {
          EXPECT_NEAR(path[i].gap, 0, 1e-9);
        }
        exchanges[exchange] += blocks;
        continue;
      }
      EXPECT_EQ(path[i].cause, Cause::input);
      EXPECT_NE(path[i].rank, path[i - 1].rank);
      ++messages[exchange];
      if (exchange == Exchange::in_order) {
        EXPECT_GE(path[i].gap, 1.05 - 1e-9);
        queued[exchange] += path[i].gap > 1.05 + 1e-9;
      } else if (exchange == Exchange::batched) {
        EXPECT_TRUE(std::abs(path[i].gap - 0.25) < 1e-9 || std::abs(path[i].gap - 0.45) < 1e-9);
      } else {
        EXPECT_NEAR(path[i].gap, 0.25, 1e-9);
      }
    }
    EXPECT_NEAR(time, timeline.end, 1e-9);
    if (HasFailure()) return;
  }
  for (auto exchange : {Exchange::overlapped, Exchange::in_order, Exchange::batched})
    EXPECT_GT(messages[exchange], 100) << name(exchange);
  EXPECT_GT(exchanges[Exchange::batched], 100);
  EXPECT_GT(queued[Exchange::in_order], 10);
}

// Rank 0 has what rank 1 needs at once, rank 2 sends it far: the wait is for rank 2, whose operator ended
// first.
TEST(LongestWaits, AreForTheMessageThatCameLast) {
  Step step = nested_step(3, 1, 1, true, false);
  step.modules[0].items = {{0, 4}, {0, 3}, {0, 2}};
  auto schedule = make_schedule(step);
  Links links{.inside = {0.1, 0}, .between = {10, 0}, .node_of_rank = {0, 0, 1}};
  Costs costs{.modules = {{1, 1}}};
  auto timeline = simulate(schedule, costs, links);
  auto waits = longest_waits(schedule, timeline, 10);
  for (const auto& wait : waits[0]) {
    if (!wait.next || wait.next->op != backbone_forward(0, 0)) continue;
    EXPECT_EQ(wait.start, 4);
    EXPECT_EQ(wait.end, 12);
    ASSERT_TRUE(wait.input);
    EXPECT_EQ(wait.input->rank, 2);
    return;
  }
  FAIL() << "rank 0 waits for the encoders before its first forward";
}

}  // namespace
}  // namespace bigmac
