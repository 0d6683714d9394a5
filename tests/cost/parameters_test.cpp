#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "bigmac/cost/count.h"
#include "bigmac/cost/parts.h"
#include "tests/cost/models.h"

namespace bigmac {
namespace {

using cost::Layer;
using cost::Model;
using cost::Parameters;
using cost::Tower;

const Layer& first(const Model& model, const std::string& name) {
  for (const auto& layer : model.layers)
    if (layer.name == name) return layer;
  ADD_FAILURE() << "no " << name << " in " << model.name;
  return model.layers.front();
}

int64_t of_parts(const Layer& layer, const std::string& prefix) {
  int64_t sum = 0;
  for (const auto& part : layer.parts)
    if (part.name.starts_with(prefix)) sum += parameters(part).all;
  return sum;
}

// Published: the sizes of the checkpoints' safetensors, or the figures that the names round.
TEST(ParameterCounts, AreThoseOfThePublishedModels) {
  struct Known {
    std::string name;
    Tower tower;
    Parameters parameters;
  };
  const int64_t experts_30b = int64_t{48} * 128 * 4718592, experts_235b = int64_t{94} * 128 * 3 * 4096 * 1536;
  for (const auto& known : std::vector<Known>{
           {"qwen3-30b-a3b", Tower::whole, {30532122624, experts_30b, 3353032704}},
           {"qwen3-235b-a22b", Tower::text, {235093634560, experts_235b, 22190763520}},
           {"qwen2.5-7b", Tower::whole, {7615616512, 0, 7615616512}},
           {"qwen2.5-72b", Tower::whole, {72706203648, 0, 72706203648}},
           {"dots-vit", Tower::whole, {1262091264, 0, 1262091264}},
           {"qwen-image", Tower::whole, {20430401088, 0, 20430401088}},
           {"flux.1-dev", Tower::whole, {11901408320, 0, 11901408320}},
       }) {
    EXPECT_EQ(parameters(shape_model(known.name, known.tower)), known.parameters) << known.name;
  }
}

TEST(ParameterCounts, OfVisionAndLanguageTowersAddUpToTheWholeModel) {
  auto both = [](const std::string& name) {
    return parameters(shape_model(name, Tower::text)).all + parameters(shape_model(name, Tower::vision)).all;
  };
  EXPECT_EQ(both("qwen3-vl-8b"), 8767123696);
  EXPECT_EQ(both("qwen2.5-vl-72b"), 73410777344);
}

TEST(ParameterCounts, OfQwen3MoeLayersAreThoseOfTheirWeights) {
  auto model = shape_model("qwen3-30b-a3b");
  const auto& layer = first(model, "moe layer");
  EXPECT_EQ(of_parts(layer, "self_attn."), 18874624);
  EXPECT_EQ(of_parts(layer, "mlp.experts."), 128 * 4718592);
  EXPECT_EQ(of_parts(layer, "mlp.gate"), 2048 * 128);
  EXPECT_EQ(parameters(layer).all, 18874624 + 128 * 4718592 + 2048 * 128 + 2 * 2048);
  EXPECT_EQ(parameters(layer).active, 18874624 + 8 * 4718592 + 2048 * 128 + 2 * 2048);
  EXPECT_EQ(parameters(first(model, "embedding")).all, 151936 * 2048);
  EXPECT_EQ(parameters(first(model, "head")).all, 151936 * 2048 + 2048);
}

TEST(ParameterCounts, OfDiffusionBlocksDifferByKind) {
  auto flux = shape_model("flux.1-dev");
  EXPECT_EQ(parameters(first(flux, "double block")).all, 339831296);
  EXPECT_EQ(parameters(first(flux, "single block")).all, 141591808);
  auto qwen = shape_model("qwen-image");
  EXPECT_EQ(parameters(first(qwen, "double block")).all, 339831296);
}

TEST(ParameterCounts, OfDotsVitAreWrittenOut) {
  auto model = shape_model("dots-vit");
  int64_t block = 4 * 1536 * 1536 + 3 * 1536 * 4224 + 2 * 1536;
  int64_t patch = 3 * 14 * 14 * 1536 + 1536 + 1536;
  int64_t merger = 1536 + 2 * 1536 + (6144 * 6144 + 6144) + (6144 * 1536 + 1536);
  EXPECT_EQ(parameters(first(model, "block")).all, block);
  EXPECT_EQ(parameters(first(model, "patch embedding")).all, patch);
  EXPECT_EQ(parameters(first(model, "merger")).all, merger);
  EXPECT_EQ(parameters(model).all, 42 * block + patch + merger);
}

TEST(ParameterCounts, OfQwen3VisionHoldAMergerForEveryDeepstackLayer) {
  auto model = shape_model("qwen3-omni-vision");
  int64_t h = 1152, m = 4 * h;
  int64_t block = 4 * h * h + 4 * h + 2 * h * 4304 + 4304 + h + 4 * h;
  int64_t fc = m * m + m + m * 2048 + 2048;
  int64_t embedding = h * 3 * 2 * 16 * 16 + h + 2304 * h;
  for (int64_t i = 0; i < 27; ++i) {
    int64_t tapped = i == 8 || i == 16 || i == 24 ? fc + 2 * m : 0;
    EXPECT_EQ(parameters(model.layers[size_t(i) + 1]).all, block + tapped) << "block " << i;
  }
  EXPECT_EQ(parameters(model).all, embedding + 27 * block + 3 * (fc + 2 * m) + fc + 2 * h);
  EXPECT_EQ(model.out, 2048);
  EXPECT_EQ(model.features, 4);
}

TEST(ParameterCounts, OfAudioEncodersAreWrittenOut) {
  int64_t layer = 4 * (1280 * 1280 + 1280) + 2 * 1280 * 5120 + 5120 + 1280 + 4 * 1280;
  int64_t convolutions = 9 * 480 + 480 + 2 * (9 * 480 * 480 + 480) + 480 * 16 * 1280;
  int64_t head = 2 * 1280 + 1280 * 1280 + 1280 + 1280 * 2048 + 2048;
  auto qwen = shape_model("qwen3-omni-audio");
  EXPECT_EQ(parameters(qwen).all, convolutions + 32 * layer + head);
  EXPECT_EQ(qwen.out, 2048);

  auto whisper = cost::read_model(
      R"({"architectures": ["WhisperForConditionalGeneration"], "d_model": 1280, "encoder_layers": 32,
          "encoder_attention_heads": 20, "encoder_ffn_dim": 5120, "num_mel_bins": 128})",
      "whisper-large-v3.json");
  EXPECT_EQ(parameters(whisper).all, 636968960);
  EXPECT_EQ(whisper.out, 1280);
}

TEST(ParameterCounts, OfATiedHeadAreCountedOnce) {
  auto config = nlohmann::json::parse(shape_text("qwen2.5-7b"));
  auto untied = parameters(cost::model_from(config, "untied"));
  config["tie_word_embeddings"] = true;
  auto tied = parameters(cost::model_from(config, "tied"));
  EXPECT_EQ(untied.all - tied.all, int64_t{152064} * 3584);
  EXPECT_EQ(untied.active - tied.active, int64_t{152064} * 3584);
}

TEST(ParameterCounts, OfEveryModelAreTheSumOfItsLayersAndOfTheirParts) {
  for (const auto& name : shape_names()) {
    auto model = shape_model(name);
    Parameters by_layer, by_part;
    for (const auto& layer : model.layers) {
      by_layer += parameters(layer);
      for (const auto& part : layer.parts) by_part += parameters(part);
    }
    EXPECT_EQ(parameters(model), by_layer) << name;
    EXPECT_EQ(parameters(model), by_part) << name;
  }
}

TEST(ParameterCounts, OfTheGptLayerAreTwelveHiddenSquared) {
  for (int64_t hidden : {64, 1024, 12288})
    EXPECT_EQ(parameters(cost::gpt_layer(hidden, 16)).all, 12 * hidden * hidden + 13 * hidden);
}

}  // namespace
}  // namespace bigmac
