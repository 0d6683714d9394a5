#include "bigmac/analysis/split.h"

#include "tests/analysis/support.h"

namespace bigmac {
namespace {

// What stages of these layers take: a layer 3, the embedding 1 and the head 5 more.
std::vector<double> times_of(const Layout& layout) {
  std::vector<double> times;
  for (const auto& stage : layout.stages)
    times.push_back(3 * double(stage.layers) + (stage.embedding ? 1 : 0) + (stage.loss ? 5 : 0));
  return times;
}

TEST(LayerSplit, EvensStagesOutLayerByLayer) {
  auto layout = parse_layout("Et*2|t*10|t*6|t*6L");
  auto split = balanced_split(layout, times_of(layout));
  EXPECT_EQ(split.layout.layers(), 24);
  // None of 20 is possible: (20 - 1) / 3 + 20 / 3 + 20 / 3 + (20 - 5) / 3 layers are 23.
  auto of_new = times_of(split.layout);
  EXPECT_EQ(*std::max_element(of_new.begin(), of_new.end()), 21);
  auto before = times_of(layout), after = times_of(split.layout);
  for (size_t s = 0; s < 4; ++s) EXPECT_NEAR(split.scale[s] * before[s], after[s], 1e-9) << s;
}

TEST(LayerSplit, IsNeverSlowerThanTheOneThatRan) {
  Random random(kSeed);
  for (int round = 0; round < 200; ++round) {
    Layout layout;
    int64_t stages = integer(random, 2, 8);
    for (int64_t s = 0; s < stages; ++s) layout.stages.push_back({.layers = integer(random, 1, 12)});
    layout.stages.front().embedding = layout.stages.back().loss = true;
    SCOPED_TRACE(concat("seed ", kSeed, " round ", round, ": ", to_text(layout)));
    auto times = times_of(layout);
    auto split = balanced_split(layout, times);
    EXPECT_EQ(split.layout.layers(), layout.layers());
    double before = 0, after = 0;
    for (size_t s = 0; s < times.size(); ++s) {
      before = std::max(before, times[s]);
      after = std::max(after, times[s] * split.scale[s]);
      EXPECT_GE(split.layout.stages[s].layers, 1);
    }
    EXPECT_LE(after, before + 1e-9);
  }
}

// The same times: of a stage with more layers, and of one whose device is slow.
TEST(LayerSplit, TellsLayersFromADevice) {
  auto schedule = make_schedule(backbone_step(4, 1, 16));
  Costs costs{.forward = {4, 4, 6, 4}, .backward = {8, 8, 12, 8}};
  auto recording = recorded(schedule, simulate(schedule, costs));
  auto text_with = [&](const std::string& layout) {
    AnalysisOptions options{.layout = parse_layout(layout)};
    auto analysis = analyse(recording, options);
    EXPECT_EQ(analysis.causes.findings.at(0).stage, 2);
    return analysis.verdict;
  };
  EXPECT_NE(text_with("Et*4|t*4|t*4|t*4L")
                .find("slow: its operators take 1.50x those of the other stages, with no more layers"),
            std::string::npos);
  EXPECT_EQ(text_with("Et*4|t*4|t*6|t*4L").find("with no more layers"), std::string::npos);
}

TEST(LayerSplit, IsSuggestedWithItsGain) {
  auto schedule = make_schedule(backbone_step(4, 1, 16));
  auto costs_with = [](const std::vector<double>& layers) {
    Costs costs{.forward = {}, .backward = {}};
    for (double n : layers) {
      costs.forward.push_back(n);
      costs.backward.push_back(2 * n);
    }
    return costs;
  };
  AnalysisOptions options{.layout = parse_layout("Et*4|t*4|t*8|t*4L")};
  auto timeline = simulate(schedule, costs_with({4, 4, 8, 4}));
  auto found = analyse(recorded(schedule, timeline), options).suggestions.list;
  auto split =
      std::find_if(found.begin(), found.end(), [](const auto& s) { return s.change == Change::split; });
  ASSERT_NE(split, found.end());
  EXPECT_EQ(split->text, "split the layers as Et*5|t*5|t*5|t*5,L");
  EXPECT_NEAR(split->step, simulate(schedule, costs_with({5, 5, 5, 5})).length(), 1e-9);
  EXPECT_TRUE(refusal([&] { analyse(recorded(schedule, timeline), {.layout = parse_layout("Et|tL")}); }));
}

}  // namespace
}  // namespace bigmac
