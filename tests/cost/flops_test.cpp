#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>

#include "bigmac/cost/count.h"
#include "bigmac/cost/parts.h"
#include "tests/cost/models.h"

namespace bigmac {
namespace {

using cost::PartKind;
using cost::Tower;

double linear(double in, double out) {
  return 2 * in * out;
}

TEST(FlopCounts, OfQwen3MoeAreTwiceTheActiveWeightsOfATokenAndItsAttention) {
  auto model = shape_model("qwen3-30b-a3b");
  for (double n : {1.0, 4096.0, 8192.0}) {
    double projections = linear(2048, 4096) + 2 * linear(2048, 512) + linear(4096, 2048);
    double mixture = linear(2048, 128) + 8 * 3 * linear(2048, 768);
    double attention = 4 * 32 * 128 * (n + 1) / 2;
    double forward = n * (48 * (projections + mixture + attention) + linear(2048, 151936));
    auto counted = flops(model, {1, n});
    EXPECT_NEAR(counted.forward / forward, 1, 1e-14);
    double attention_part = n * 48 * attention;
    EXPECT_NEAR(counted.weight / (forward - attention_part), 1, 1e-14);
    EXPECT_NEAR(counted.input / (forward + 1.5 * attention_part), 1, 1e-14);
  }
}

// The other way round: from the number of active parameters that are multiplied.
TEST(FlopCounts, OfDecodersFollowFromTheirActiveParameters) {
  struct Known {
    std::string name;
    double layers, hidden, heads_width, kv_width, vocabulary, qk_norm, bias;
  };
  for (const auto& known : std::vector<Known>{{"qwen3-30b-a3b", 48, 2048, 4096, 512, 151936, 256, 0},
                                              {"qwen3-235b-a22b", 94, 4096, 8192, 512, 151936, 256, 0},
                                              {"qwen2.5-7b", 28, 3584, 3584, 512, 152064, 0, 1},
                                              {"qwen2.5-72b", 80, 8192, 8192, 1024, 152064, 0, 1}}) {
    auto model = shape_model(known.name);
    double active = double(parameters(model).active);
    double looked_up = known.vocabulary * known.hidden;
    double norms = known.layers * (2 * known.hidden + known.qk_norm) + known.hidden;
    double biases = known.bias * known.layers * (known.heads_width + 2 * known.kv_width);
    double multiplied = active - looked_up - norms - biases;
    for (double n : {128.0, 32768.0}) {
      double attention = known.layers * 2 * known.heads_width * (n + 1);
      auto counted = flops(model, {4, n});
      EXPECT_NEAR(counted.forward / (4 * n * (2 * multiplied + attention)), 1, 1e-14) << known.name;
      EXPECT_NEAR(counted.weight / (4 * n * 2 * multiplied), 1, 1e-14) << known.name;
    }
  }
}

TEST(FlopCounts, OfWindowedVisionSeeSixtyFourPatchesButForFourLayers) {
  auto model = shape_model("qwen2.5-vl-72b", Tower::vision);
  double block = linear(1280, 3840) + linear(1280, 1280) + 3 * linear(1280, 3456);
  double merger = (linear(5120, 5120) + linear(5120, 8192)) / 4;
  double patches = linear(3 * 2 * 14 * 14, 1280);
  for (double n : {64.0, 1024.0, 16384.0}) {
    double attention = 4 * 1280 * (4 * n + 28 * 64);
    auto counted = flops(model, {2, n, 0, 1});
    double forward = 2 * n * (patches + 32 * block + attention + merger);
    EXPECT_NEAR(counted.forward / forward, 1, 1e-14) << n << " patches";
    EXPECT_NEAR(counted.input / (forward + 2 * n * (1.5 * attention - patches)), 1, 1e-14);
    EXPECT_NEAR(counted.weight / (forward - 2 * n * attention), 1, 1e-14);
  }
}

TEST(FlopCounts, OfFullVisionGrowWithTheSquareOfThePatches) {
  double n = 4096;
  auto dots = flops(shape_model("dots-vit"), {1, n});
  double block = 4 * linear(1536, 1536) + 3 * linear(1536, 4224) + 4 * 1536 * n;
  double ends = linear(588, 1536) + (linear(6144, 6144) + linear(6144, 1536)) / 4;
  EXPECT_NEAR(dots.forward / (n * (42 * block + ends)), 1, 1e-14);

  auto qwen = flops(shape_model("qwen3-vl-8b", Tower::vision), {1, n});
  block = 4 * linear(1152, 1152) + 2 * linear(1152, 4304) + 4 * 1152 * n;
  double mergers = 4 * (linear(4608, 4608) + linear(4608, 4096)) / 4;
  EXPECT_NEAR(qwen.forward / (n * (27 * block + linear(1536, 1152) + mergers)), 1, 1e-14);
}

TEST(FlopCounts, OfDoubleStreamBlocksRunBothStreamsAndOneModulationASample) {
  double n = 4096, t = 512, h = 3072, samples = 3;
  double stream = 4 * linear(h, h) + 2 * linear(h, 4 * h);
  double attention = 4 * h * (n + t) * (n + t);
  double block = (n + t) * stream + attention + 2 * linear(h, 6 * h);
  double ends =
      n * 2 * linear(64, h) + t * linear(3584, h) + linear(256, h) + linear(h, h) + linear(h, 2 * h);
  auto counted = flops(shape_model("qwen-image"), {samples, n, t});
  EXPECT_NEAR(counted.forward / (samples * (60 * block + ends)), 1, 1e-14);
}

TEST(FlopCounts, OfFluxRunSingleBlocksOverBothStreams) {
  double n = 4096, t = 512, h = 3072;
  double stream = 4 * linear(h, h) + 2 * linear(h, 4 * h);
  double attention = 4 * h * (n + t) * (n + t);
  double two = (n + t) * stream + attention + 2 * linear(h, 6 * h);
  double one =
      (n + t) * (3 * linear(h, h) + linear(h, 4 * h) + linear(5 * h, h)) + attention + linear(h, 3 * h);
  double ends = n * 2 * linear(64, h) + t * linear(4096, h) + 2 * linear(256, h) + linear(768, h) +
                3 * linear(h, h) + linear(h, 2 * h);
  auto counted = flops(shape_model("flux.1-dev"), {1, n, t});
  EXPECT_NEAR(counted.forward / (19 * two + 38 * one + ends), 1, 1e-14);
}

// A chunk of 100 mel frames of 128 bins becomes 13 tokens; the convolutions' outputs are 50 x 64, 25 x 32 and
// 13 x 16, of which a token's share is taken as 4 x 64, 2 x 32 and 16.
TEST(FlopCounts, OfAudioConvolutionsAreThoseOfTheirPositions) {
  auto model = shape_model("qwen3-omni-audio");
  double exact = linear(9, 480) * 50 * 64 + linear(9 * 480, 480) * (25 * 32 + 13 * 16);
  double counted = 0;
  for (const auto& part : model.layers.front().parts)
    if (part.name.starts_with("conv") && part.name != "conv_out") counted += flops(part, {1, 13}).forward;
  EXPECT_NEAR(counted / exact, 1, 0.04);
  double n = 1300;
  double layer = 4 * linear(1280, 1280) + 2 * linear(1280, 5120) + 4 * 1280 * 104;
  double ends = counted / 13 + linear(480 * 16, 1280) + linear(1280, 1280) + linear(1280, 2048);
  EXPECT_NEAR(flops(model, {1, n}).forward / (n * (32 * layer + ends)), 1, 1e-14);
}

// 24 s h^2 + 4 s^2 h a layer (Korthikanti et al. 2022, appendix A, for one sequence).
TEST(FlopCounts, OfTheGptLayerAreThePublishedFormula) {
  double s = 2048, h = 12288;
  EXPECT_DOUBLE_EQ(flops(cost::gpt_layer(12288, 96), {1, s}).forward, 24 * s * h * h + 4 * s * s * h);
}

TEST(FlopCounts, OfEveryModelAreThoseOfItsPartsMultipliedOut) {
  const uint64_t seed = 20261130;
  std::mt19937_64 random(seed);
  for (const auto& name : shape_names())
    for (int i = 0; i < 5; ++i) {
      auto model = shape_model(name);
      double tokens = double(4 * std::uniform_int_distribution(1, 5000)(random));
      double text = double(std::uniform_int_distribution(0, 1000)(random));
      double count = double(std::uniform_int_distribution(1, 9)(random));
      double forward = 0, weight = 0, data = 0, attention = 0;
      for (const auto& layer : model.layers)
        for (const auto& part : layer.parts) {
          double rows = part.rows == cost::Rows::tokens   ? tokens
                        : part.rows == cost::Rows::text   ? text
                        : part.rows == cost::Rows::joint  ? tokens + text
                        : part.rows == cost::Rows::merged ? tokens / double(model.merge)
                                                          : 1;
          if (part.kind == PartKind::attention) {
            double keys = part.window > 0 ? std::min(rows, double(part.window)) : rows;
            if (part.causal) keys = (keys + 1) / 2;
            attention += count * rows * keys * 2 * double(part.heads * (part.head_dim + part.head_dim));
          }
          if (part.kind != PartKind::linear) continue;
          double times = count * rows * double(part.per_row) * (part.experts > 0 ? double(part.top_k) : 1);
          double once = times * linear(double(part.in), double(part.out));
          forward += once;
          weight += once;
          if (part.of_data) data += once;
        }
      auto counted = flops(model, {count, tokens, text});
      auto told = name + " with seed " + std::to_string(seed);
      EXPECT_NEAR(counted.forward / (forward + attention), 1, 1e-12) << told;
      EXPECT_NEAR(counted.weight / weight, 1, 1e-12) << told;
      EXPECT_NEAR(counted.input / (forward - data + 2.5 * attention), 1, 1e-12) << told;
      EXPECT_DOUBLE_EQ(counted.all(), counted.forward + counted.input + counted.weight);
      EXPECT_NEAR(flops(model, {2 * count, tokens, text}).all() / counted.all(), 2, 1e-12) << told;
    }
}

TEST(FlopCounts, OfWhatOnlyMovesBytesAreZero) {
  for (const auto& name : shape_names())
    for (const auto& layer : shape_model(name).layers)
      for (const auto& part : layer.parts) {
        auto counted = flops(part, {1, 128, 128, 4});
        bool computes = part.kind == PartKind::linear || part.kind == PartKind::attention;
        EXPECT_EQ(counted.forward > 0, computes) << name << ' ' << part.name;
        EXPECT_EQ(counted.weight > 0, part.kind == PartKind::linear) << name << ' ' << part.name;
        EXPECT_EQ(counted.input > 0, computes && !part.of_data) << name << ' ' << part.name;
      }
}

}  // namespace
}  // namespace bigmac
