#include "bigmac/workload/draw.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "bigmac/common/error.h"

namespace bigmac {
namespace {

constexpr int64_t kMany = 100000;

std::vector<double> joined(const std::vector<std::vector<double>>& samples) {
  std::vector<double> all;
  for (const auto& sample : samples) all.insert(all.end(), sample.begin(), sample.end());
  return all;
}

double mean_of(const std::vector<double>& values) {
  double sum = 0;
  for (double value : values) sum += value;
  return sum / double(values.size());
}

double deviation_of(const std::vector<double>& values) {
  double mean = mean_of(values), sum = 0;
  for (double value : values) sum += (value - mean) * (value - mean);
  return std::sqrt(sum / double(values.size()));
}

std::vector<double> counts_of(const std::vector<std::vector<double>>& samples) {
  std::vector<double> counts;
  counts.reserve(samples.size());
  for (const auto& sample : samples) counts.push_back(double(sample.size()));
  return counts;
}

TEST(DrawItems, GivesTheSameEverywhere) {
  ItemDistribution items{.mean = 3, .fixed = false, .empty = 0.25, .tokens = 1024, .sigma = 0.5, .least = 64};
  std::vector<std::vector<double>> expected{
      {990, 1523}, {}, {1348, 475, 594, 1921, 487, 633, 723}, {}, {2028, 1087, 670}, {562, 549, 655}};
  EXPECT_EQ(draw_items(items, 6, 7, 0), expected);
}

TEST(DrawItems, DrawsTheFirstSamplesOfALongerDrawAlike) {
  ItemDistribution items{.mean = 3, .fixed = false, .empty = 0.3, .tokens = 500, .sigma = 1};
  auto longer = draw_items(items, 1000, 5, 2);
  for (int64_t count : {0, 1, 17, 999}) {
    auto shorter = draw_items(items, count, 5, 2);
    ASSERT_EQ(int64_t(shorter.size()), count);
    EXPECT_TRUE(std::equal(shorter.begin(), shorter.end(), longer.begin()));
  }
}

TEST(DrawItems, DiffersBySeedStreamAndSample) {
  ItemDistribution items{.mean = 1, .tokens = 1e6, .sigma = 1};
  std::map<double, int> seen;
  for (uint64_t seed : {0, 1, 2, 1000})
    for (uint64_t stream : {0, 1, 2})
      for (double size : joined(draw_items(items, 50, seed, stream))) ++seen[size];
  EXPECT_GE(seen.size(), 590u);  // of 600; sizes are whole, so a few may meet
}

TEST(DrawItems, HasExactlyAsManyItemsAsAreFixed) {
  for (double mean : {1.0, 8.0, 100.0})
    for (const auto& sample : draw_items({.mean = mean, .tokens = 10}, 200, 1, 0))
      EXPECT_EQ(double(sample.size()), mean);
}

TEST(DrawItems, HasOneAndAPoissonNumberOfItemsElse) {
  for (double mean : {1.0, 1.5, 4.0, 17.0, 60.0}) {
    auto counts = counts_of(draw_items({.mean = mean, .fixed = false, .tokens = 10}, kMany, 1, 0));
    double poisson = mean - 1;
    // Within four standard errors.
    EXPECT_NEAR(mean_of(counts), mean, 4 * std::sqrt(poisson / kMany)) << mean;
    EXPECT_NEAR(std::pow(deviation_of(counts), 2), poisson,
                4 * std::sqrt((poisson + 2 * poisson * poisson) / kMany))
        << mean;
    EXPECT_GE(*std::min_element(counts.begin(), counts.end()), 1);
  }
}

TEST(DrawItems, FollowsThePoissonDistributionNumberByNumber) {
  std::map<size_t, double> found;
  for (const auto& sample : draw_items({.mean = 4, .fixed = false, .tokens = 10}, kMany, 3, 0))
    ++found[sample.size()];
  double part = std::exp(-3.0);
  for (size_t k = 0; k <= 10; ++k) {
    EXPECT_NEAR(found[k + 1] / kMany, part, 4.5 * std::sqrt(part * (1 - part) / kMany)) << k;
    part *= 3.0 / double(k + 1);
  }
}

TEST(DrawItems, LeavesItsShareOfSamplesEmpty) {
  for (double empty : {0.0, 0.1, 0.75}) {
    auto counts = counts_of(draw_items({.mean = 2, .empty = empty, .tokens = 10}, kMany, 1, 0));
    double share = double(std::count(counts.begin(), counts.end(), 0.0)) / kMany;
    EXPECT_NEAR(share, empty, 4 * std::sqrt(empty * (1 - empty) / kMany)) << empty;
  }
}

TEST(DrawItems, HasTheMeanAndTheSigmaAskedFor) {
  for (double sigma : {0.0, 0.25, 0.5, 1.0}) {
    auto sizes = joined(draw_items({.mean = 1, .tokens = 100000, .sigma = sigma}, kMany, 11, 0));
    double relative = std::sqrt(std::exp(sigma * sigma) - 1);  // deviation over mean of a log-normal
    EXPECT_NEAR(mean_of(sizes) / 100000, 1, 4 * relative / std::sqrt(double(kMany)) + 1e-9) << sigma;
    for (auto& size : sizes) size = std::log(size);
    EXPECT_NEAR(deviation_of(sizes), sigma, 4 * sigma / std::sqrt(2.0 * kMany) + 1e-9) << sigma;
    EXPECT_NEAR(mean_of(sizes), std::log(100000.0) - sigma * sigma / 2,
                4 * sigma / std::sqrt(double(kMany)) + 1e-9);
  }
}

TEST(DrawItems, HasTheTailsOfALogNormal) {
  auto sizes = joined(draw_items({.mean = 1, .tokens = 100000, .sigma = 0.5}, kMany, 2, 0));
  double mu = std::log(100000.0) - 0.125;
  for (double z : {-2.0, -1.0, 0.0, 1.0, 2.0}) {
    double below = 0, expected = std::erfc(-z / std::sqrt(2.0)) / 2;
    for (double size : sizes) below += std::log(size) < mu + 0.5 * z;
    EXPECT_NEAR(below / kMany, expected, 4 * std::sqrt(expected * (1 - expected) / kMany)) << z;
  }
}

TEST(DrawItems, GivesWholeSizesWithinTheirBounds) {
  bool least = false, most = false;
  for (double size : joined(draw_items({.tokens = 100, .sigma = 2, .least = 30, .most = 200}, 1000, 1, 0))) {
    EXPECT_EQ(size, std::floor(size));
    EXPECT_GE(size, 30);
    EXPECT_LE(size, 200);
    least |= size == 30;
    most |= size == 200;
  }
  EXPECT_TRUE(least && most);
}

TEST(DrawItems, RefusesWhatIsNoDistribution) {
  auto error_of = [](ItemDistribution items, int64_t samples = 1) -> std::string {
    try {
      draw_items(items, samples, 1, 0);
    } catch (const InvalidInput& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_EQ(error_of({.tokens = 1}), "no error");
  EXPECT_EQ(error_of({.tokens = 1}, -1), "[items] samples must be at least 0, got -1");
  for (double bad : {0.0, -1.0, 0.5, double(NAN), double(INFINITY)})
    EXPECT_NE(error_of({.mean = bad, .tokens = 1}).find("[items] the mean must be"), std::string::npos)
        << bad;
  EXPECT_EQ(error_of({.mean = 2.5, .tokens = 1}), "[items] a fixed number must be whole, got 2.5");
  EXPECT_EQ(error_of({.mean = 2.5, .fixed = false, .tokens = 1}), "no error");
  for (double bad : {-0.1, 1.1, double(NAN)})
    EXPECT_NE(error_of({.empty = bad, .tokens = 1}).find("the share without items"), std::string::npos);
  for (double bad : {0.0, -5.0, double(NAN), double(INFINITY)})
    EXPECT_NE(error_of({.tokens = bad}).find("tokens must be above 0"), std::string::npos);
  for (double bad : {-0.5, 11.0, double(NAN)})
    EXPECT_NE(error_of({.tokens = 5, .sigma = bad}).find("sigma must be"), std::string::npos);
  EXPECT_NE(error_of({.tokens = 5, .least = 10, .most = 5}).find("the least size"), std::string::npos);
  EXPECT_NE(error_of({.tokens = 5, .least = 0}).find("the least size"), std::string::npos);
}

}  // namespace
}  // namespace bigmac
