#include "bigmac/picture/label.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

namespace bigmac {
namespace {

constexpr uint64_t kSeed = 20250611;

TEST(SpreadApart, LeavesWhatIsFarEnoughApart) {
  EXPECT_EQ(spread_apart({30, 10, 50}, 14, 0, 100), (std::vector<double>{30, 10, 50}));
  EXPECT_EQ(spread_apart({}, 14, 0, 100), std::vector<double>{});
}

TEST(SpreadApart, MovesNeighboursByEquallyMuch) {
  EXPECT_EQ(spread_apart({50, 50}, 14, 0, 100), (std::vector<double>{43, 57}));
  EXPECT_EQ(spread_apart({52, 48}, 14, 0, 100), (std::vector<double>{57, 43}));
}

TEST(SpreadApart, KeepsToItsBounds) {
  EXPECT_EQ(spread_apart({0, 0}, 14, 0, 100), (std::vector<double>{0, 14}));
  EXPECT_EQ(spread_apart({100, 100}, 14, 0, 100), (std::vector<double>{86, 100}));
}

TEST(SpreadApart, GivesNothingWhereThereIsNoRoom) {
  EXPECT_TRUE(spread_apart({1, 2, 3}, 14, 0, 20).empty());
}

TEST(SpreadApart, KeepsOrderGapsAndBoundsWhateverIsWanted) {
  std::mt19937_64 random(kSeed);
  for (int trial = 0; trial < 1000; ++trial) {
    SCOPED_TRACE(testing::Message() << "seed " << kSeed << ", trial " << trial);
    std::vector<double> wanted(1 + random() % 15);
    for (auto& value : wanted) value = double(random() % 3000) / 10 - 50;
    auto places = spread_apart(wanted, 14, 0, 200);
    ASSERT_EQ(places.size(), wanted.size());
    std::vector<size_t> order(wanted.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return wanted[a] < wanted[b]; });
    for (size_t n = 0; n < order.size(); ++n) {
      EXPECT_GE(places[order[n]], -1e-9);
      EXPECT_LE(places[order[n]], 200 + 1e-9);
      EXPECT_TRUE(n == 0 || places[order[n]] - places[order[n - 1]] >= 14 - 1e-9);
    }
  }
}

TEST(Fitted, CutsAtACharacterAndSaysSo) {
  EXPECT_EQ(fitted("short", 100, 12), "short");
  auto cut = fitted("größenverteilung der bilder", 60, 12);
  EXPECT_EQ(cut.substr(cut.size() - 3), "\xE2\x80\xA6");
  EXPECT_LE(text_width(cut, 12), 60 + 12);
  for (double width = 0; width < 120; width += 1) {
    auto text = fitted("ääääääää図図", width, 12);
    auto kept = text.substr(0, text.size() - 3);
    EXPECT_EQ(std::string("ääääääää図図").rfind(kept, 0), 0u);
    EXPECT_NE(static_cast<unsigned char>(kept.empty() ? 0x80 : kept.back()), 0xc3u) << width;
  }
}

TEST(LeastCrowded, TakesTheFirstFreePlaceInside) {
  Area bounds{0, 0, 100, 100};
  std::vector<Area> candidates{{95, 50, 10, 10}, {10, 10, 10, 10}, {50, 50, 10, 10}, {70, 70, 10, 10}};
  EXPECT_EQ(least_crowded(candidates, bounds, {}).x, 10);
  EXPECT_EQ(least_crowded(candidates, bounds, {.areas = {{5, 5, 10, 10}}}).x, 50);
  // A line that passes through without a point inside.
  EXPECT_EQ(least_crowded(candidates, bounds, {.lines = {{{0, 0}, {60, 60}}}}).x, 70);
  EXPECT_EQ(least_crowded({{-5, 0, 10, 10}}, bounds, {}).x, -5);
}

}  // namespace
}  // namespace bigmac
