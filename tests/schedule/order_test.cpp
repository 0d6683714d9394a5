#include "bigmac/schedule/order.h"

#include <gtest/gtest.h>

#include <iostream>
#include <numeric>

#include "bigmac/schedule/check.h"
#include "bigmac/schedule/make.h"
#include "tests/schedule/support.h"

namespace bigmac {
namespace {

Step step_with_items(int64_t ranks, int64_t microbatches, Module kind, std::vector<Item> items) {
  Step step = backbone_step(ranks, 1, microbatches);
  step.arrangement = Arrangement::nested;
  step.modules.push_back({"pictures", kind, std::move(items)});
  return step;
}

Step one_random_item_each(Random& random, int64_t ranks, int64_t microbatches, double sigma) {
  std::lognormal_distribution<double> size(0, sigma);
  std::vector<Item> items;
  for (int64_t m = 0; m < microbatches; ++m) items.push_back({uint32_t(m), size(random)});
  return step_with_items(ranks, microbatches, Module::generator, std::move(items));
}

double slowest_over_mean(const Step& step, const Costs& costs) {
  auto loss = unit_loss(step, costs);
  return loss.slowest / loss.mean;
}

const Costs kOneEach{.modules = {{1, 2}}};

TEST(Order, MovesTheItemsWithTheirMicrobatchAndSaysWhoseTheyAre) {
  Step step = step_with_items(2, 3, Module::encoder, {{0, 1}, {0, 2}, {2, 3}});
  Step moved = reordered(step, {2, 0, 1});
  EXPECT_EQ(moved.order, (std::vector<uint32_t>{2, 0, 1}));
  EXPECT_EQ(moved.modules[0].items, (std::vector<Item>{{0, 3}, {1, 1}, {1, 2}}));
  EXPECT_EQ(moved.declared(0), 2u);
  Step again = reordered(moved, {1, 2, 0});
  EXPECT_EQ(again.order, (std::vector<uint32_t>{0, 1, 2}));
  EXPECT_EQ(again.modules[0].items, step.modules[0].items);
}

TEST(Order, IsRefusedWhereItIsNoPermutation) {
  Step step = step_with_items(2, 3, Module::encoder, {{0, 1}});
  auto message_for = [&](std::vector<uint32_t> order) {
    return refusal([&] { reordered(step, order); }).value_or("");
  };
  EXPECT_EQ(message_for({0, 1}), "[order] has 2 microbatches, the step has 3");
  EXPECT_EQ(message_for({0, 1, 3}), "[order] has microbatch 3 at position 2, the step has 0 to 2");
  EXPECT_EQ(message_for({0, 1, 0}), "[order] has microbatch 0 twice, at positions 0 and 2");
}

TEST(Order, MakesATableThatIsCompleteForAnyPermutation) {
  Random random(kSeed);
  for (int round = 0; round < 200; ++round) {
    SCOPED_TRACE(concat("seed ", kSeed, " round ", round));
    int64_t microbatches = integer(random, 1, 20);
    Step step = step_with_items(integer(random, 1, 5), microbatches, Module::encoder,
                                random_items(random, microbatches, 1, 4));
    std::vector<uint32_t> order(static_cast<size_t>(microbatches));
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), random);
    for (const auto& chosen : {order, balanced_order(step, kOneEach)}) {
      auto schedule = make_schedule(reordered(step, chosen));
      EXPECT_EQ(check(schedule), std::vector<std::string>{});
      EXPECT_EQ(schedule.step.order, chosen);
    }
  }
}

// One target a microbatch, log-normal with sigma 0.5, P=8, M=128. Sorting is the best that an order can do
// here (the next test), and what it does differs from draw to draw.
TEST(Order, BalancedBringsTheSlowestRanksOfUnsplittableItemsNearTheirMean) {
  double as_is = 0, balanced = 0, worst = 0;
  constexpr int kDraws = 40;
  Random random(kSeed);
  for (int draw = 0; draw < kDraws; ++draw) {
    Step step = one_random_item_each(random, 8, 128, 0.5);
    double after = slowest_over_mean(reordered(step, balanced_order(step, kOneEach)), kOneEach);
    as_is += slowest_over_mean(step, kOneEach) / kDraws;
    balanced += after / kDraws;
    worst = std::max(worst, after);
  }
  std::cout << "slowest ranks of units over their mean: as they come " << as_is << ", balanced " << balanced
            << ", the worst of " << kDraws << " draws " << worst << "\n";
  EXPECT_LE(balanced, 1.12);
  EXPECT_LE(worst, 1.25);
  EXPECT_GE(as_is, 1.7);
}

TEST(Order, NoOrderOfOneItemEachDoesBetterThanBalanced) {
  Random random(kSeed);
  for (int round = 0; round < 20; ++round) {
    SCOPED_TRACE(concat("seed ", kSeed, " round ", round));
    Step step = one_random_item_each(random, 2, 7, 0.8);
    double ours = unit_loss(reordered(step, balanced_order(step, kOneEach)), kOneEach).slowest;
    std::vector<uint32_t> order(7);
    std::iota(order.begin(), order.end(), 0);
    double best = ours;
    do best = std::min(best, unit_loss(reordered(step, order), kOneEach).slowest);
    while (std::next_permutation(order.begin(), order.end()));
    EXPECT_NEAR(ours, best, 1e-12);
  }
}

// Heavy and light microbatches in one unit, so that what is held does not depend on luck.
TEST(Order, BalancedGivesUnitsOfManyItemsAlikeTotals) {
  Random random(kSeed);
  for (int round = 0; round < 50; ++round) {
    SCOPED_TRACE(concat("seed ", kSeed, " round ", round));
    std::lognormal_distribution<double> size(0, 1);
    std::vector<Item> items;
    for (uint32_t m = 0; m < 64; ++m)
      for (int64_t n = integer(random, 8, 40); n > 0; --n) items.push_back({m, size(random)});
    Step step = step_with_items(4, 64, Module::encoder, items);
    auto spread_of_totals = [](const Step& of) {
      std::vector<double> totals(16, 0);
      for (const auto& item : of.modules[0].items) totals[item.microbatch / 4] += item.size;
      auto [least, most] = std::minmax_element(totals.begin(), totals.end());
      return *most / *least;
    };
    double after = spread_of_totals(reordered(step, balanced_order(step, kOneEach)));
    EXPECT_LT(after, spread_of_totals(step));
    EXPECT_LT(after, 1.2);
  }
}

TEST(Order, BalancedIsNeverWorseThanAsTheyCome) {
  Random random(kSeed);
  for (int round = 0; round < 300; ++round) {
    SCOPED_TRACE(concat("seed ", kSeed, " round ", round));
    int64_t microbatches = integer(random, 1, 40);
    Step step = step_with_items(integer(random, 1, 8), microbatches, Module::encoder,
                                random_items(random, microbatches, uniform(random, 0, 2), 5));
    step.modules.push_back({"targets", Module::generator, random_items(random, microbatches, 1, 1)});
    step.generator_unit = integer(random, 0, step.ranks);
    Costs costs{.modules = {{0.5, 1}, {1, 2}}};
    double as_is = unit_loss(step, costs).slowest;
    EXPECT_LE(unit_loss(reordered(step, balanced_order(step, costs)), costs).slowest, as_is * 1.01);
  }
}

}  // namespace
}  // namespace bigmac
