#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/simulate/links_support.h"

namespace bigmac {
namespace {

TEST(Links, RefuseATableWithADeadlockInTheCheckersWords) {
  Step step = nested_step(2, 2, 4, true, false);
  auto schedule = make_schedule(step);
  auto rows = rows_of(schedule);
  std::swap(*std::find(rows[0].begin(), rows[0].end(), backbone_forward(0, 1)),
            *std::find(rows[0].begin(), rows[0].end(), backbone_backward(0, 1)));
  auto crossed = make_table(step, rows, schedule.shares);
  crossed.units = schedule.units;
  for (auto exchange : kExchanges) {
    auto message = refusal([&] { simulate(crossed, {}, Links{.exchange = exchange}); });
    ASSERT_TRUE(message);
    EXPECT_TRUE(contains(*message, "[simulate] deadlock")) << *message;
    EXPECT_TRUE(contains(*message, "backbone B chunk 0 microbatch 1")) << *message;
  }
}

TEST(Links, RefuseATableThatMissesWhatAnOperatorNeeds) {
  auto rows = rows_of(make_schedule(backbone_step(2, 1, 2)));
  std::erase(rows[0], backbone_forward(0, 1));
  for (auto exchange : kExchanges) {
    auto message =
        refusal([&] { simulate(make_table(backbone_step(2, 1, 2), rows), {}, Links{.exchange = exchange}); });
    ASSERT_TRUE(message);
    EXPECT_TRUE(contains(*message, "rank 0 misses backbone F chunk 0 microbatch 1")) << *message;
  }
}

TEST(Links, RefuseFiguresThatAreNegativeOrNotFinite) {
  auto schedule = make_schedule(nested_step(2, 1, 4, true, true));
  using Figure = double& (*)(Links&);
  const std::pair<const char*, Figure> figures[] = {
      {"the latency inside a node", [](Links& links) -> double& { return links.inside.latency; }},
      {"the time per byte inside a node", [](Links& links) -> double& { return links.inside.time_per_byte; }},
      {"the latency between nodes", [](Links& links) -> double& { return links.between.latency; }},
      {"the time per byte between nodes",
       [](Links& links) -> double& { return links.between.time_per_byte; }},
      {"a stage's bytes", [](Links& links) -> double& { return links.stage_bytes; }},
      {"an item's bytes", [](Links& links) -> double& { return links.item_bytes[1]; }}};
  for (const auto& [what, figure] : figures)
    for (double bad : {-1.0, -1e-300, std::numeric_limits<double>::infinity(), std::nan("")}) {
      Links links{.item_bytes = {1, 1}};
      figure(links) = bad;
      auto message = refusal([&] { simulate(schedule, {}, links); });
      ASSERT_TRUE(message) << what << " " << bad;
      EXPECT_TRUE(contains(*message, concat("[links] ", what, " must be a finite number of at least 0")))
          << *message;
    }
}

TEST(Links, RefuseListsOfAWrongLength) {
  auto schedule = make_schedule(nested_step(2, 1, 4, true, true));
  auto expect = [&](const Links& links, const std::string& text) {
    auto message = refusal([&] { simulate(schedule, {}, links); });
    ASSERT_TRUE(message) << text;
    EXPECT_TRUE(contains(*message, text)) << *message;
  };
  expect({.node_of_rank = {0}}, "one value for each of 2 ranks, or none where all are on one node, got 1");
  expect({.node_of_rank = {0, 0, 1}}, "got 3");
  expect({.node_of_rank = {0, -1}}, "rank 1 is on node -1");
  expect({.item_bytes = {1, 1, 1}}, "given for 3 encoders and generators, the step has 2");
  for (auto bytes : {std::vector<double>{}, {1}, {1, 1}})
    EXPECT_FALSE(refusal([&] { simulate(schedule, {}, Links{.item_bytes = bytes}); }));
}

TEST(Exchanges, HaveNames) {
  for (auto exchange : kExchanges) EXPECT_EQ(exchange_from_name(name(exchange)), exchange);
  auto message = refusal([] { exchange_from_name("batch"); });
  ASSERT_TRUE(message);
  EXPECT_TRUE(contains(*message, "unknown exchange 'batch' (did you mean 'batched'?)")) << *message;
  EXPECT_TRUE(contains(*message, "overlapped, in-order, batched")) << *message;
}

}  // namespace
}  // namespace bigmac
