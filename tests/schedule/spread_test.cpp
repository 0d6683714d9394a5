#include "bigmac/schedule/spread.h"

#include <gtest/gtest.h>

#include <numeric>

#include "tests/schedule/support.h"

namespace bigmac {
namespace {

// Graham's rule in words: the largest item that is left to the rank with the least so far; of equal items the
// first, of equal ranks the lower.
std::vector<int32_t> in_words(const std::vector<double>& sizes, int64_t ranks,
                              std::vector<double> load = {}) {
  std::vector<int32_t> on(sizes.size(), -1);
  load.resize(size_t(ranks), 0);
  for (size_t n = 0; n < sizes.size(); ++n) {
    size_t next = sizes.size();
    for (size_t i = 0; i < sizes.size(); ++i)
      if (on[i] < 0 && (next == sizes.size() || sizes[i] > sizes[next])) next = i;
    size_t rank = 0;
    for (size_t r = 1; r < load.size(); ++r)
      if (load[r] < load[rank]) rank = r;
    on[next] = int32_t(rank);
    load[rank] += sizes[next];
  }
  return on;
}

std::vector<double> random_sizes(Random& random, int64_t count, double sigma) {
  std::lognormal_distribution<double> size(0, sigma);
  std::vector<double> sizes;
  for (int64_t n = 0; n < count; ++n) sizes.push_back(size(random));
  return sizes;
}

TEST(LongestFirst, IsTheRuleInWords) {
  Random random(kSeed);
  for (int round = 0; round < 2000; ++round) {
    int64_t ranks = integer(random, 1, 9);
    auto sizes = random_sizes(random, integer(random, 0, 40), uniform(random, 0, 2));
    if (round % 2 == 0)  // many ties
      for (double& size : sizes) size = std::ceil(size);
    auto held = random_sizes(random, ranks, 1);
    EXPECT_EQ(longest_first(sizes, ranks), in_words(sizes, ranks)) << "P=" << ranks << " round=" << round;
    EXPECT_EQ(longest_first(sizes, ranks, held), in_words(sizes, ranks, held))
        << "P=" << ranks << " round=" << round;
  }
}

TEST(LongestFirst, LoadsNoRankWithMoreThanTheMeanAndOneItem) {
  Random random(kSeed);
  for (int round = 0; round < 2000; ++round) {
    int64_t ranks = integer(random, 1, 9);
    auto sizes = random_sizes(random, integer(random, 1, 40), uniform(random, 0, 2));
    auto on = longest_first(sizes, ranks);
    std::vector<double> load(size_t(ranks), 0);
    for (size_t i = 0; i < sizes.size(); ++i) load[size_t(on[i])] += sizes[i];
    double mean = std::accumulate(sizes.begin(), sizes.end(), 0.0) / double(ranks);
    EXPECT_LE(*std::max_element(load.begin(), load.end()),
              mean + *std::max_element(sizes.begin(), sizes.end()) + 1e-9);
  }
}

TEST(LongestFirst, GivesEqualItemsOneByOneToRanksInOrder) {
  EXPECT_EQ(longest_first({1, 1, 1, 1, 1}, 3), (std::vector<int32_t>{0, 1, 2, 0, 1}));
  EXPECT_EQ(longest_first({1, 2, 3}, 2), (std::vector<int32_t>{1, 1, 0}));
  EXPECT_EQ(longest_first({2, 3, 2, 3}, 2), (std::vector<int32_t>{0, 0, 1, 1}));
  EXPECT_EQ(longest_first({}, 2), std::vector<int32_t>{});
}

Step random_step(Random& random) {
  Step step = nested_step(integer(random, 1, 8), 1, integer(random, 1, 26), true, true);
  step.modules.push_back({"audio", Module::encoder, {}});
  for (auto& module : step.modules)
    module.items = random_items(random, step.microbatches, uniform(random, 0, 2), 4);
  step.generator_unit = integer(random, 0, step.ranks);
  step.spread = integer(random, 0, 3) > 0;
  return step;
}

TEST(Spread, HoldsEveryItemOnceInAShareOfItsUnitInOrder) {
  Random random(kSeed);
  for (int round = 0; round < 1000; ++round) {
    Step step = random_step(random);
    SCOPED_TRACE(concat(describe(step), " round=", round));
    auto shares = spread(step);
    std::vector<std::vector<int>> times;
    for (const auto& module : step.modules) times.emplace_back(module.items.size(), 0);
    auto key = [](const Share& share) { return std::array{share.module, share.unit, share.rank}; };
    for (size_t i = 0; i < shares.list.size(); ++i) {
      const Share& share = shares.list[i];
      if (i > 0) {
        EXPECT_LT(key(shares.list[i - 1]), key(share));
      }
      auto items = shares.items_of(share);
      EXPECT_FALSE(items.empty());
      EXPECT_TRUE(std::is_sorted(items.begin(), items.end()));
      const auto& module = step.modules[size_t(share.module)];
      int64_t size =
          module.kind == Module::generator && step.generator_unit ? step.generator_unit : step.ranks;
      for (uint32_t item : items) {
        EXPECT_EQ(module.items[item].microbatch / size, share.unit);
        ++times[size_t(share.module)][item];
      }
    }
    for (const auto& module : times) EXPECT_EQ(module, std::vector<int>(module.size(), 1));
  }
}

TEST(Spread, GivesEachUnitsItemsLongestFirst) {
  Random random(kSeed);
  for (int round = 0; round < 1000; ++round) {
    Step step = random_step(random);
    SCOPED_TRACE(concat(describe(step), " round=", round));
    auto shares = spread(step);
    for (size_t n = 0; n < step.modules.size(); ++n) {
      const auto& items = step.modules[n].items;
      int64_t size =
          step.modules[n].kind == Module::generator && step.generator_unit ? step.generator_unit : step.ranks;
      std::vector<int32_t> on(items.size(), -1), expected;
      for (const auto& share : shares.list)
        if (share.module == int32_t(n))
          for (uint32_t item : shares.items_of(share)) on[item] = share.rank;
      for (int64_t first = 0; first < step.microbatches; first += size) {
        std::vector<double> sizes;
        for (const auto& item : items)
          if (item.microbatch >= first && item.microbatch < first + size) {
            sizes.push_back(item.size);
            if (!step.spread) expected.push_back(int32_t(item.microbatch % step.ranks));
          }
        if (!step.spread) continue;
        auto ranks = in_words(sizes, step.ranks);
        expected.insert(expected.end(), ranks.begin(), ranks.end());
      }
      EXPECT_EQ(on, expected);
    }
  }
}

TEST(Spread, IsTheSameEveryTime) {
  Random random(kSeed);
  for (int round = 0; round < 50; ++round) {
    Step step = random_step(random);
    EXPECT_EQ(spread(step), spread(step));
  }
}

TEST(Spread, OfOneItemAMicrobatchIsARankEach) {
  for (int64_t ranks = 1; ranks <= 5; ++ranks) {
    Step step = nested_step(ranks, 1, 3 * ranks + 1, true, true);
    for (const auto& share : spread(step).list) {
      EXPECT_EQ(share.count, 1u);
      EXPECT_EQ(share.first % uint32_t(3 * ranks + 1) % uint32_t(ranks), uint32_t(share.rank));
    }
  }
}

TEST(SpreadSingly, MakesEveryItemAShareOfItsOwnOnTheSameRank) {
  Random random(kSeed);
  for (int round = 0; round < 300; ++round) {
    Step step = random_step(random);
    SCOPED_TRACE(concat(describe(step), " round=", round));
    auto together = spread(step), single = spread_singly(step);
    std::vector<std::vector<Share>> of_item;
    for (const auto& module : step.modules) of_item.emplace_back(module.items.size());
    for (const auto& share : together.list)
      for (uint32_t item : together.items_of(share)) of_item[size_t(share.module)][item] = share;
    size_t next = 0;
    for (size_t n = 0; n < step.modules.size(); ++n)
      for (uint32_t item = 0; item < step.modules[n].items.size(); ++item, ++next) {
        ASSERT_LT(next, single.list.size());
        const Share& share = single.list[next];
        EXPECT_EQ(share.count, 1u);
        EXPECT_EQ(single.items[share.first], item);
        EXPECT_EQ(share.module, int32_t(n));
        EXPECT_EQ(share.unit, of_item[n][item].unit);
        EXPECT_EQ(share.rank, of_item[n][item].rank);
      }
    EXPECT_EQ(next, single.list.size());
  }
}

TEST(UnitSizes, AreTheLargestShareOfEachModule) {
  Step step = nested_step(2, 1, 4, true, false);
  step.modules[0].items = {{0, 5}, {1, 1}, {1, 2}, {2, 4}, {3, 3}};
  step.modules.push_back({"none", Module::encoder, {}});
  EXPECT_EQ(unit_sizes(step, spread(step)), (std::vector<double>{5, 0}));
}

}  // namespace
}  // namespace bigmac
