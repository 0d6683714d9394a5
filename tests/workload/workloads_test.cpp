#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "bigmac/cost/count.h"
#include "bigmac/workload/draw.h"
#include "bigmac/workload/read_workload.h"

namespace bigmac {
namespace {

constexpr double kGiB = 1024.0 * 1024 * 1024;

Workload of(const std::string& name) {
  return read_workload(std::string(BIGMAC_SOURCE_DIR) + "/workloads/" + name + ".yaml");
}

TEST(Workloads, UnderstandingIsThePapers) {
  auto w = of("understanding");
  EXPECT_EQ(w.name, "understanding");
  EXPECT_EQ(w.tokens, 8192);
  EXPECT_EQ(w.gpus, 128);
  EXPECT_EQ(w.hardware, cost::hardware_from_name("H800"));
  EXPECT_EQ(w.memory, 80 * kGiB);
  EXPECT_EQ(w.reserved, 4 * kGiB);
  EXPECT_EQ(w.samples_per_gpu, (std::vector<int64_t>{1, 2, 4, 8, 16, 32, 64}));
  EXPECT_EQ(cost::parameters(w.backbone.model).all, 30532122624);
  ASSERT_EQ(w.modules.size(), 1u);
  EXPECT_EQ(w.modules[0].kind, Module::encoder);
  EXPECT_NEAR(double(cost::parameters(w.modules[0].model).all), 1.262e9, 0.001e9);
  EXPECT_EQ(w.modules[0].items,
            (ItemDistribution{.mean = 8, .tokens = 1200, .sigma = 0.5, .least = 64, .most = 16384}));
}

// The reckoning in understanding.yaml: forward FLOPs of a sample's pictures over the LLM's, drawn.
TEST(Workloads, UnderstandingsPicturesTakeTheShareThatTheFileSays) {
  auto w = of("understanding");
  const auto& image = w.modules[0];
  double llm = cost::flops(w.backbone.model, {.count = 1, .tokens = w.tokens}).forward, encoder = 0;
  EXPECT_NEAR(llm, 7.62e13, 0.01e13);
  constexpr int64_t kSamples = 20000;
  for (const auto& sample : draw_items(image.items, kSamples, w.seed, 0))
    for (double tokens : sample)
      encoder += cost::flops(image.model, {.count = 1, .tokens = tokens, .merge = image.model.merge}).forward;
  EXPECT_NEAR(encoder / kSamples / llm, 0.359, 0.004);
}

TEST(Workloads, GenerationAddsAShardedDiffusionModel) {
  auto w = of("generation"), understanding = of("understanding");
  ASSERT_EQ(w.modules.size(), 2u);
  EXPECT_EQ(w.modules[0].items, understanding.modules[0].items);
  EXPECT_EQ(w.backbone.efficiency, understanding.backbone.efficiency);
  EXPECT_EQ(w.hardware, understanding.hardware);
  const auto& drawing = w.modules[1];
  EXPECT_EQ(drawing.kind, Module::generator);
  EXPECT_EQ(cost::parameters(drawing.model).all, 20430401088);
  EXPECT_EQ(drawing.items, (ItemDistribution{.mean = 1, .tokens = 4096}));
  EXPECT_EQ(drawing.shard, 8);
  double llm = cost::flops(w.backbone.model, {.count = 1, .tokens = w.tokens}).forward;
  double forward = cost::flops(drawing.model, {.count = 1, .tokens = 4096, .text = drawing.text}).forward;
  EXPECT_NEAR(forward / llm, 1.03, 0.01);
}

TEST(Workloads, Qwen25Vl72bHasMindSpeedsSplit) {
  auto w = of("qwen2.5-vl-72b");
  EXPECT_NEAR(double(cost::parameters(w.backbone.model).all), 72.7e9, 0.05e9);
  ASSERT_EQ(w.modules.size(), 1u);
  EXPECT_TRUE(w.modules[0].frozen);
  EXPECT_EQ(w.modules[0].model.family, cost::Family::vision);
  // 80 layers by stage, and the embedding and the head.
  EXPECT_EQ(w.search.splits, (std::vector<cost::Split>{{7, 11, 11, 11, 11, 11, 11, 9}}));
  EXPECT_EQ(w.search.pipeline, std::vector<int64_t>{8});
  EXPECT_EQ(w.search.tensor, std::vector<int64_t>{2});
  int64_t data = w.gpus / (w.search.pipeline[0] * w.search.tensor[0]);
  EXPECT_EQ(w.samples_per_gpu[0] * w.gpus / data / w.search.microbatch[0], 96);  // M
}

TEST(Workloads, SmallHoldsItsModelsItself) {
  auto w = of("small");
  EXPECT_EQ(w.gpus, 8);
  EXPECT_NEAR(double(cost::parameters(w.backbone.model).all), 0.596e9, 0.001e9);  // Qwen3-0.6B's shape
  EXPECT_EQ(w.modules.size(), 1u);
  EXPECT_EQ(w.modules[0].model.out, w.backbone.model.hidden);
}

}  // namespace
}  // namespace bigmac
