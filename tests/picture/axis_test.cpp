#include "bigmac/picture/axis.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace bigmac {
namespace {

constexpr uint64_t kSeed = 20250611;
using Texts = std::vector<std::string>;

TEST(ValueAxis, HasTicksAtOneTwoOrFiveTimesAPowerOfTen) {
  EXPECT_EQ(value_axis(3, 95, 5).ticks, (std::vector<double>{0, 20, 40, 60, 80, 100}));
  EXPECT_EQ(value_axis(1, 1.9, 4).ticks, (std::vector<double>{0, 0.5, 1, 1.5, 2}));
  EXPECT_EQ(value_axis(-3, 9, 6).ticks, (std::vector<double>{-4, -2, 0, 2, 4, 6, 8, 10}));
  EXPECT_EQ(value_axis(-8, -2, 4).ticks, (std::vector<double>{-8, -6, -4, -2, 0}));
}

TEST(ValueAxis, OfOneValueRunsFromZero) {
  EXPECT_EQ(value_axis(5, 5, 5).ticks, (std::vector<double>{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(value_axis(0, 0, 2).ticks, (std::vector<double>{0, 0.5, 1}));
}

TEST(Axes, EncloseTheirValuesWithFewRisingTicksAtAnyMagnitude) {
  std::mt19937_64 random(kSeed);
  std::uniform_real_distribution<double> exponent(-305, 300), part(-1, 1);
  for (int trial = 0; trial < 5000; ++trial) {
    SCOPED_TRACE(testing::Message() << "seed " << kSeed << ", trial " << trial);
    double a = part(random) * std::pow(10, exponent(random));
    double b =
        trial % 3 == 0 ? a * (1 + 1e-12 * part(random)) : part(random) * std::pow(10, exponent(random));
    double low = std::min(a, b), high = std::max(a, b);
    int most = 2 + trial % 9;
    for (const auto& axis : {value_axis(low, high, most), linear_axis(low, high, most)}) {
      ASSERT_TRUE(std::isfinite(axis.low) && std::isfinite(axis.high));
      ASSERT_LT(axis.low, axis.high);
      EXPECT_GE(axis.part(low), -1e-6);
      EXPECT_LE(axis.part(high), 1 + 1e-6);
      EXPECT_GE(axis.ticks.size(), 1u);
      EXPECT_LE(axis.ticks.size(), size_t(most) + 3);
      EXPECT_TRUE(std::is_sorted(axis.ticks.begin(), axis.ticks.end(), std::less_equal<>()));
      for (double tick : axis.ticks) {
        EXPECT_GE(axis.part(tick), -1e-5);
        EXPECT_LE(axis.part(tick), 1 + 1e-5);
      }
    }
    double least = std::abs(a) + 1e-300, largest = least + std::abs(b);
    auto axis = log2_axis(least, largest, most);
    EXPECT_GE(axis.part(least), 0);
    EXPECT_LE(axis.part(largest), 1);
    EXPECT_GE(axis.ticks.size(), 1u);
    EXPECT_LE(axis.ticks.size(), size_t(most) + 1);
  }
}

TEST(Log2Axis, HasTicksAtThePowersOfTwo) {
  EXPECT_EQ(log2_axis(1, 64, 8).ticks, (std::vector<double>{1, 2, 4, 8, 16, 32, 64}));
  EXPECT_EQ(log2_axis(3, 20, 8).ticks, (std::vector<double>{4, 8, 16}));
  EXPECT_EQ(log2_axis(1, 64, 4).ticks, (std::vector<double>{1, 4, 16, 64}));
  EXPECT_DOUBLE_EQ(log2_axis(1, 64, 8).part(8), 0.5);
}

TEST(Log2Axis, OfOneValueHasTicksAroundIt) {
  EXPECT_EQ(log2_axis(4, 4, 8).ticks, (std::vector<double>{2, 4, 8}));
  EXPECT_EQ(log2_axis(5, 7, 8).ticks.size(), 3u);
}

TEST(TickTexts, AreAsShortAsTellsThemApart) {
  EXPECT_EQ(tick_texts(value_axis(0, 0.3, 3)), (Texts{"0", "0.1", "0.2", "0.3"}));
  EXPECT_EQ(tick_texts(value_axis(0, 4e6, 4)),
            (Texts{"0", "1,000,000", "2,000,000", "3,000,000", "4,000,000"}));
  EXPECT_EQ(tick_texts(value_axis(0, 2e9, 2)), (Texts{"0", "1e9", "2e9"}));
  EXPECT_EQ(tick_texts(value_axis(0, 2e-7, 2)), (Texts{"0", "1e-7", "2e-7"}));
  EXPECT_EQ(tick_texts(value_axis(-20000, 0, 2)), (Texts{"-20,000", "-10,000", "0"}));
  EXPECT_EQ(tick_texts(value_axis(0, 4000, 4)), (Texts{"0", "1000", "2000", "3000", "4000"}));
  EXPECT_EQ(tick_texts({.low = 0, .high = 1, .ticks = {100000001, 100000002}}),
            (Texts{"100,000,001", "100,000,002"}));
}

TEST(TickTexts, OfPowersOfTwoCountInK) {
  EXPECT_EQ(tick_texts(log2_axis(0.25, 1, 8)), (Texts{"0.25", "0.5", "1"}));
  EXPECT_EQ(tick_texts(log2_axis(4096, 65536, 8)), (Texts{"4096", "8192", "16K", "32K", "64K"}));
  EXPECT_EQ(tick_texts(log2_axis(std::exp2(20), std::exp2(21), 8)), (Texts{"1M", "2M"}));
  EXPECT_EQ(tick_texts(log2_axis(std::exp2(60), std::exp2(61), 8)), (Texts{"2^60", "2^61"}));
}

}  // namespace
}  // namespace bigmac
