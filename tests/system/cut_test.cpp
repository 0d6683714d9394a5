#include "bigmac/system/cut.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <numeric>
#include <random>

#include "tests/system/support.h"

namespace bigmac {
namespace {

using Numbers = std::vector<int64_t>;

// Layers of each stage, without embedding and head.
Numbers layers_of(const Cut& cut) {
  Numbers layers;
  int64_t parts = cut.first.back();
  for (int64_t s = 0; s < cut.stages(); ++s) {
    int64_t begin = std::max<int64_t>(cut.first[size_t(s)], 1),
            end = std::min(cut.first[size_t(s) + 1], parts - 1);
    layers.push_back(std::max<int64_t>(end - begin, 0));
  }
  return layers;
}

void expect_every_part_once(const Cut& cut, int64_t parts, int64_t stages) {
  ASSERT_EQ(cut.stages(), stages);
  EXPECT_EQ(cut.first.front(), 0);
  EXPECT_EQ(cut.first.back(), parts);
  EXPECT_TRUE(std::is_sorted(cut.first.begin(), cut.first.end()));
  Numbers held(size_t(stages), 0);
  for (int64_t part = 0; part < parts; ++part) {
    int64_t stage = cut.stage_of(part);
    ASSERT_GE(stage, 0);
    ASSERT_LT(stage, stages);
    EXPECT_LE(cut.first[size_t(stage)], part);
    EXPECT_LT(part, cut.first[size_t(stage) + 1]);
    ++held[size_t(stage)];
  }
  for (int64_t s = 0; s < stages; ++s)
    EXPECT_EQ(held[size_t(s)], cut.first[size_t(s) + 1] - cut.first[size_t(s)]);
}

double slowest(const std::vector<double>& costs, const Numbers& first) {
  double most = 0;
  for (size_t s = 0; s + 1 < first.size(); ++s)
    most = std::max(most, std::accumulate(costs.begin() + first[s], costs.begin() + first[s + 1], 0.0));
  return most;
}

TEST(Cut, OfLayersThatDoNotDivideHasEveryLayerOnce) {
  EXPECT_EQ(layers_of(make_cut(backbone_of(30), 4)), (Numbers{7, 7, 8, 8}));
  EXPECT_EQ(layers_of(make_cut(backbone_of(61), 4)), (Numbers{15, 15, 15, 16}));
  EXPECT_EQ(layers_of(make_cut(backbone_of(7), 2)), (Numbers{3, 4}));
  auto forty = layers_of(make_cut(backbone_of(40), 16));
  EXPECT_EQ(std::count(forty.begin(), forty.end(), 2), 8);
  EXPECT_EQ(std::count(forty.begin(), forty.end(), 3), 8);
  EXPECT_TRUE(std::is_sorted(forty.begin(), forty.end()));
}

TEST(Cut, IntoAnyNumberOfStagesIsMadeOrRefusedInBoundedTime) {
  auto start = std::chrono::steady_clock::now();
  for (int64_t layers : {1, 7, 30, 40, 61}) {
    auto backbone = backbone_of(layers);
    for (int64_t stages = 1; stages <= layers + 2; ++stages) {
      SCOPED_TRACE(concat(layers, " layers, ", stages, " stages"));
      auto cut = make_cut(backbone, stages);
      expect_every_part_once(cut, layers + 2, stages);
      auto held = layers_of(cut);
      EXPECT_EQ(*std::max_element(held.begin(), held.end()), (layers + stages - 1) / stages);
      for (int64_t s = 0; s < stages; ++s) EXPECT_LT(cut.first[size_t(s)], cut.first[size_t(s) + 1]);
    }
    EXPECT_EQ(complaint([&] { make_cut(backbone, layers + 3); }),
              concat("[cut] ", layers + 3, " stages (P * V) for the ", layers + 2,
                     " parts of 'llm' (the embedding, ", layers, " layers and the head); take at most ",
                     layers + 2));
  }
  EXPECT_NE(complaint([] { make_cut(backbone_of(3), 0); }), "no error");
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
}

// All cuts of few parts: none has a faster slowest stage.
TEST(Cut, ByCostsHasTheFastestSlowestStage) {
  std::mt19937 random(5);
  for (int trial = 0; trial < 60; ++trial) {
    int64_t layers = 1 + int64_t(random() % 7), parts = layers + 2;
    auto backbone = backbone_of(layers);
    std::vector<double> costs;
    for (int64_t p = 0; p < parts; ++p) costs.push_back(double(random() % 20) / 4);
    for (int64_t stages = 1; stages <= parts; ++stages) {
      double least = INFINITY;
      Numbers first{0};
      std::function<void()> extend = [&] {
        if (int64_t(first.size()) == stages) {
          first.push_back(parts);
          least = std::min(least, slowest(costs, first));
          first.pop_back();
          return;
        }
        for (int64_t next = first.back() + 1; next < parts; ++next) {
          first.push_back(next);
          extend();
          first.pop_back();
        }
      };
      extend();
      auto cut = make_cut(backbone, stages, {.costs = costs});
      expect_every_part_once(cut, parts, stages);
      EXPECT_NEAR(slowest(costs, cut.first), least, 1e-6) << stages << " stages, trial " << trial;
      // The same where the costs are declared.
      auto declared = backbone;
      declared.embedding->cost = costs.front();
      declared.head->cost = costs.back();
      for (int64_t i = 0; i < layers; ++i) declared.layers[size_t(i)].cost = costs[size_t(i) + 1];
      EXPECT_EQ(make_cut(declared, stages).first, cut.first);
      auto of_stages = stage_costs(declared, cut);
      double sum = std::accumulate(costs.begin(), costs.end(), 0.0);
      for (int64_t s = 0; s < stages; ++s) {
        double own = std::accumulate(costs.begin() + cut.first[size_t(s)],
                                     costs.begin() + cut.first[size_t(s) + 1], 0.0);
        EXPECT_NEAR(of_stages[size_t(s)], sum > 0 ? own / sum * double(stages) : 1, 1e-9);
      }
    }
  }
}

TEST(Cut, ByHeavyHeadGivesTheLastStageFewerLayers) {
  auto backbone = backbone_of(8);
  backbone.head->cost = 3;
  EXPECT_EQ(layers_of(make_cut(backbone, 3)), (Numbers{3, 4, 1}));
  EXPECT_EQ(layers_of(make_cut(backbone, 3, {.costs = {0, 1, 1, 1, 1, 1, 1, 1, 1, 1}})), (Numbers{3, 3, 2}));
}

TEST(Cut, ByListCountsLayersAlone) {
  auto backbone = backbone_of(8);
  auto cut = make_cut(backbone, 4, {.split = {1, 3, 4, 0}});
  EXPECT_EQ(cut.first, (Numbers{0, 2, 5, 9, 10}));
  auto empty = make_cut(backbone, 4, {.split = {0, 8, 0, 0}});
  EXPECT_EQ(empty.first, (Numbers{0, 1, 9, 9, 10}));
  expect_every_part_once(empty, 10, 4);
  EXPECT_EQ(complaint([&] {
              make_cut(backbone, 4, {.split = {1, 3, 4, 1}});
            }),
            "[split] holds 9 layers, the model has 8");
  EXPECT_EQ(complaint([&] {
              make_cut(backbone, 4, {.split = {4, 4}});
            }),
            "[split] has 2 stages, the pipeline has 4");
  EXPECT_NE(complaint([&] { make_cut(backbone, 4, {.split = {9, -1, 0, 0}}); }), "no error");
}

TEST(Cut, ByLayoutIsMegatrons) {
  Numbers layers(32, 2);
  layers.front() = 1;
  layers.back() = 0;
  EXPECT_EQ(layers_of(make_cut(backbone_of(61), 32, {.layout = "Et|(tt|)*30L"})), layers);
  auto cut = make_cut(backbone_of(2), 4, {.layout = "Et||t|L"});
  EXPECT_EQ(cut.first, (Numbers{0, 2, 2, 3, 4}));
  expect_every_part_once(cut, 4, 4);
  EXPECT_EQ(complaint([] { make_cut(backbone_of(61), 31, {.layout = "Et|(tt|)*29|L"}); }),
            "[layout] holds 59 layers, the model has 61");
  EXPECT_EQ(complaint([] { make_cut(backbone_of(4), 4, {.layout = "Ett|ttL"}); }),
            "[cut] layout 'Ett|ttL' has 2 stages, the pipeline has 4");
  EXPECT_NE(complaint([] { make_cut(backbone_of(4), 2, {.layout = "Etx|ttL"}); }), "no error");
}

TEST(Cut, RefusesOptionsThatSpeakAgainstEachOther) {
  auto backbone = backbone_of(4);
  EXPECT_EQ(complaint([&] {
              make_cut(backbone, 2, {.split = {2, 2}, .layout = "Ett|ttL"});
            }),
            "[cut] both a split and a layout are given; leave one out");
  EXPECT_EQ(complaint([&] {
              make_cut(backbone, 2, {.costs = {1, 1, 1, 1}});
            }),
            "[cut] 4 costs for the 6 parts of 'llm': the embedding, 4 layers and the head");
  EXPECT_NE(complaint([&] { make_cut(backbone, 2, {.costs = {1, 1, 1, -1, 1, 1}}); }), "no error");
  EXPECT_NE(complaint([&] { make_cut(backbone, 2, {.costs = {1, 1, 1, NAN, 1, 1}}); }), "no error");
}

}  // namespace
}  // namespace bigmac
