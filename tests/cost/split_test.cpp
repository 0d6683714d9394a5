#include "bigmac/cost/split.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <limits>
#include <numeric>
#include <random>
#include <tuple>

#include "tests/cost/layers.h"

namespace bigmac {
namespace {

using namespace cost;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

double sum(const std::vector<double>& values, int64_t begin, int64_t end) {
  double all = 0;
  for (int64_t i = begin; i < end && i < int64_t(values.size()); ++i) all += values[size_t(i)];
  return all;
}

struct Judged {
  double slowest = kInfinity, squares = kInfinity;
  Split split;

  bool operator<(const Judged& other) const {
    return std::tie(slowest, squares, split) < std::tie(other.slowest, other.squares, other.split);
  }
};

bool keeps(const SplitCosts& costs, const Split& split) {
  int64_t begin = 0;
  for (size_t stage = 0; stage < split.size(); ++stage) {
    if (split[stage] < (costs.empty_stages ? 0 : 1)) return false;
    double held = sum(costs.bytes, begin, begin + split[stage]);
    if (!costs.extra_bytes.empty()) held += costs.extra_bytes[stage];
    if (!costs.most_bytes.empty() && held > costs.most_bytes[costs.most_bytes.size() == 1 ? 0 : stage])
      return false;
    begin += split[stage];
  }
  return begin == int64_t(costs.times.size());
}

Judged judge(const SplitCosts& costs, const Split& split) {
  Judged judged{0, 0, split};
  int64_t begin = 0;
  for (size_t stage = 0; stage < split.size(); ++stage) {
    double time = sum(costs.times, begin, begin + split[stage]);
    if (!costs.extra.empty()) time += costs.extra[stage];
    judged.slowest = std::max(judged.slowest, time);
    judged.squares += time * time;
    begin += split[stage];
  }
  return judged;
}

// The best of every way to deal the layers out.
Judged best_of_all(const SplitCosts& costs, int64_t stages) {
  Judged best;
  Split split;
  std::function<void(int64_t)> deal = [&](int64_t left) {
    if (int64_t(split.size()) + 1 == stages) {
      split.push_back(left);
      if (keeps(costs, split)) best = std::min(best, judge(costs, split));
      split.pop_back();
      return;
    }
    for (int64_t here = 0; here <= left; ++here) {
      split.push_back(here);
      deal(left - here);
      split.pop_back();
    }
  };
  deal(int64_t(costs.times.size()));
  return best;
}

int64_t total(const Split& split) {
  return std::accumulate(split.begin(), split.end(), int64_t(0));
}

SplitCosts equal_layers(int64_t layers, double time = 1) {
  return {.times = std::vector<double>(size_t(layers), time)};
}

TEST(Split, IsTheBestOfAllWaysOverRandomCosts) {
  int refused = 0, found = 0;
  for (uint32_t seed = 0; seed < 1500; ++seed) {
    std::mt19937 random(seed);
    auto below = [&](int64_t bound) { return int64_t(random() % uint64_t(bound)); };
    auto figures = [&](int64_t count, int64_t bound) {
      std::vector<double> values;
      for (int64_t i = 0; i < count; ++i) values.push_back(double(below(bound)));
      return values;
    };
    int64_t layers = 1 + below(10), stages = 1 + below(5);
    SplitCosts costs{.times = figures(layers, below(2) ? 4 : 100)};
    costs.empty_stages = below(2) == 1 || stages > layers;
    if (below(2)) costs.extra = figures(stages, 60);
    if (below(2)) {
      costs.bytes = figures(layers, 20);
      if (below(4)) costs.most_bytes = figures(below(2) ? 1 : stages, 80);
      if (below(2)) costs.extra_bytes = figures(stages, 15);
    }
    auto best = best_of_all(costs, stages);
    if (best.split.empty()) {
      ++refused;
      expect_told([&] { balanced_split(costs, stages); }, {"[split] no split keeps to the limits: stage "});
      continue;
    }
    ++found;
    auto split = balanced_split(costs, stages);
    ASSERT_EQ(split, best.split) << "seed " << seed << ": " << layers << " layers, " << stages << " stages";
  }
  EXPECT_GT(refused, 100);
  EXPECT_GT(found, 800);
}

TEST(Split, PutsEveryLayerOnceForEveryNumberOfStages) {
  for (int64_t layers : {1, 2, 7, 30, 40, 61, 94})
    for (int64_t stages = 1; stages <= layers; ++stages) {
      auto split = balanced_split(equal_layers(layers, 0.1), stages);
      ASSERT_EQ(int64_t(split.size()), stages);
      EXPECT_EQ(total(split), layers);
      auto [least, most] = std::minmax_element(split.begin(), split.end());
      EXPECT_LE(*most - *least, 1) << layers << " layers, " << stages << " stages";
      EXPECT_TRUE(std::is_sorted(split.begin(), split.end()));
      EXPECT_NO_THROW(check_split(split, layers, stages));
    }
}

TEST(Split, DealsOutLayersThatDoNotDivide) {
  EXPECT_EQ(balanced_split(equal_layers(30), 4), (Split{7, 7, 8, 8}));
  EXPECT_EQ(balanced_split(equal_layers(61), 4), (Split{15, 15, 15, 16}));
  EXPECT_EQ(balanced_split(equal_layers(7), 2), (Split{3, 4}));
  EXPECT_EQ(balanced_split(equal_layers(40), 16), (Split{2, 2, 2, 2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3}));
}

TEST(Split, IsEvenWhereSumsAreRounded) {
  for (double time : {0.1, 1.0 / 3, 1e-7, 1e9 / 7, 1e-310, 1e300})
    EXPECT_EQ(balanced_split(equal_layers(60, time), 4), (Split{15, 15, 15, 15})) << time;
}

TEST(Split, CountsEmbeddingHeadAndEncoderInAStage) {
  // 80 layers of 1; a head of 3.4; an encoder of 5 in the first stage.
  SplitCosts costs = equal_layers(82);
  costs.times.front() = 0;
  costs.times.back() = 3.4;
  EXPECT_EQ(balanced_split(costs, 8), (Split{11, 10, 10, 10, 11, 11, 11, 8}));
  costs.extra = {5, 0, 0, 0, 0, 0, 0, 0};
  auto split = balanced_split(costs, 8);
  EXPECT_EQ(total(split), 82);
  EXPECT_DOUBLE_EQ(judge(costs, split).slowest, 11.4);
  EXPECT_LE(split.front(), 7);
}

TEST(Split, LeavesAStageEmptyOnlyWhereThatIsAllowed) {
  SplitCosts costs{.times = {1, 1, 1, 1}, .extra = {9, 0, 0}, .empty_stages = true};
  EXPECT_EQ(balanced_split(costs, 3), (Split{0, 2, 2}));
  costs.empty_stages = false;
  EXPECT_EQ(balanced_split(costs, 3), (Split{1, 1, 2}));
  EXPECT_EQ(balanced_split({.times = {1, 1}, .empty_stages = true}, 5), (Split{0, 0, 0, 1, 1}));
}

TEST(Split, KeepsToTheMemoryOfEachStage) {
  SplitCosts costs = equal_layers(12);
  costs.bytes = std::vector<double>(12, 10);
  costs.most_bytes = {20, 100, 100};
  EXPECT_EQ(balanced_split(costs, 3), (Split{2, 5, 5}));
  costs.extra_bytes = {0, 70, 0};
  EXPECT_EQ(balanced_split(costs, 3), (Split{2, 3, 7}));
  costs.most_bytes = {40};
  costs.extra_bytes = {};
  EXPECT_EQ(balanced_split(costs, 3), (Split{4, 4, 4}));
  costs.most_bytes = {kInfinity};
  EXPECT_EQ(balanced_split(costs, 3), (Split{4, 4, 4}));
}

TEST(Split, NamesTheStageThatCannotKeepToItsLimit) {
  constexpr double kGiB = 1024.0 * 1024 * 1024;
  auto error = [](const SplitCosts& costs, int64_t stages) {
    return error_of([&] { balanced_split(costs, stages); });
  };
  SplitCosts costs = equal_layers(12);
  costs.bytes = std::vector<double>(12, 10 * kGiB);
  costs.most_bytes = {30 * kGiB};
  EXPECT_EQ(
      error(costs, 3),
      "[split] no split keeps to the limits: stage 2 would hold 60.0 GiB with layers 6 to 11, its limit "
      "is 30.0 GiB");
  costs.most_bytes = {80 * kGiB, 5 * kGiB, 80 * kGiB};
  EXPECT_EQ(
      error(costs, 3),
      "[split] no split keeps to the limits: stage 1 would hold 10.0 GiB with layer 1, its limit is 5.0 "
      "GiB");
  costs.empty_stages = true;
  EXPECT_EQ(balanced_split(costs, 3), (Split{6, 0, 6}));
  costs.extra_bytes = {0, 7.5 * kGiB, 0};
  EXPECT_EQ(
      error(costs, 3),
      "[split] no split keeps to the limits: stage 1 would hold 7.5 GiB beside its layers, its limit is "
      "5.0 GiB");
}

TEST(Split, RefusesMoreStagesThanLayersAndNamesBoth) {
  EXPECT_EQ(error_of([] { balanced_split(equal_layers(7), 8); }),
            "[split] 8 stages for 7 layers: each must hold a layer, so at most 7 stages are possible");
  EXPECT_EQ(error_of([] { balanced_split({}, 2); }), "[split] the model has no layers");
  for (int64_t stages : {0, -1})
    EXPECT_EQ(error_of([&] { balanced_split(equal_layers(7), stages); }),
              concat("[split] stages must be at least 1, got ", stages));
}

TEST(Split, RefusesFiguresThatAreNone) {
  struct List {
    const char* name;
    std::vector<double> SplitCosts::*of;
    bool infinite;
  };
  for (const auto& list : {List{"time of layer 1", &SplitCosts::times, false},
                           List{"extra time of stage 1", &SplitCosts::extra, false},
                           List{"bytes of layer 1", &SplitCosts::bytes, false},
                           List{"most bytes of stage 1", &SplitCosts::most_bytes, true},
                           List{"extra bytes of stage 1", &SplitCosts::extra_bytes, false}})
    for (double value : {-1.0, kNan, kInfinity, -kInfinity}) {
      SplitCosts costs{{1, 1, 1}, {0, 0, 0}, {1, 1, 1}, {9, 9, 9}, {0, 0, 0}, false};
      (costs.*list.of)[1] = value;
      if (list.infinite && value == kInfinity)
        EXPECT_NO_THROW(balanced_split(costs, 3));
      else
        expect_told([&] { balanced_split(costs, 3); },
                    {concat("[split] ", list.name, " must be at least 0"), concat("got ", value)});
    }
  EXPECT_EQ(error_of([] { balanced_split(equal_layers(30, 1e308), 3); }), "[split] times add up to infinity");
}

TEST(Split, RefusesListsOfAWrongLength) {
  SplitCosts right{{1, 1, 1}, {0, 0}, {1, 1, 1}, {9, 9}, {0, 0}, false};
  EXPECT_NO_THROW(balanced_split(right, 2));
  auto error = [&](std::vector<double> SplitCosts::*list, std::vector<double> values) {
    auto costs = right;
    costs.*list = std::move(values);
    return error_of([&] { balanced_split(costs, 2); });
  };
  EXPECT_EQ(error(&SplitCosts::extra, {1}), "[split] extra has 1 values for 2 stages");
  EXPECT_EQ(error(&SplitCosts::bytes, {1, 1}), "[split] bytes has 2 values for 3 layers");
  EXPECT_EQ(error(&SplitCosts::extra_bytes, {1, 1, 1}), "[split] extra bytes has 3 values for 2 stages");
  EXPECT_EQ(error(&SplitCosts::most_bytes, {1, 1, 1}), "[split] most bytes has 3 values for 2 stages");
  EXPECT_EQ(error(&SplitCosts::bytes, {}), "[split] limits are given, but no bytes of layers");
}

// Generous, for sanitizers and busy machines; a plan asks thousands of times.
TEST(Split, IsQuick) {
  std::mt19937 random(5);
  SplitCosts costs;
  for (int i = 0; i < 100; ++i) costs.times.push_back(1 + double(random() % 1000) / 1000);
  auto begin = std::chrono::steady_clock::now();
  for (int round = 0; round < 20; ++round) {
    costs.empty_stages = round % 2 == 0;
    EXPECT_EQ(total(balanced_split(costs, 64)), 100);
  }
  std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  EXPECT_LT(seconds.count(), 1) << "20 splits of 100 layers over 64 stages";
}

}  // namespace
}  // namespace bigmac
