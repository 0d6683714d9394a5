#include "bigmac/cost/read_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "bigmac/cost/architectures.h"
#include "bigmac/cost/count.h"
#include "tests/cost/layers.h"
#include "tests/cost/models.h"

namespace bigmac {
namespace {

using cost::Model;
using cost::Tower;
using nlohmann::json;

json config_of(const std::string& name) {
  return json::parse(shape_text(name));
}

Model read(const json& config, Tower tower = Tower::whole) {
  return cost::model_from(config, "config.json", tower);
}

void expect_refused(const json& config, const std::vector<std::string>& parts, Tower tower = Tower::whole) {
  expect_told([&] { read(config, tower); }, parts);
}

int64_t layers_named(const Model& model, const std::string& name) {
  return std::count_if(model.layers.begin(), model.layers.end(),
                       [&](const auto& layer) { return layer.name == name; });
}

json small_moe() {
  return {{"architectures", {"Qwen3MoeForCausalLM"}},
          {"vocab_size", 100},
          {"hidden_size", 64},
          {"num_hidden_layers", 8},
          {"num_attention_heads", 4},
          {"num_key_value_heads", 2},
          {"num_experts", 8},
          {"num_experts_per_tok", 2},
          {"moe_intermediate_size", 32},
          {"intermediate_size", 128}};
}

TEST(ReadModel, PutsTheEmbeddingFirstAndTheHeadLast) {
  for (const auto& name : shape_names()) {
    auto model = shape_model(name);
    EXPECT_EQ(model.name, name);
    bool vision = model.family == cost::Family::vision;
    EXPECT_EQ(model.layers.front().name, vision ? "patch embedding" : "embedding") << name;
    EXPECT_EQ(model.layers.back().name, vision ? "merger" : "head") << name;
  }
  EXPECT_EQ(shape_model("qwen3-30b-a3b").layers.size(), 50);
  EXPECT_EQ(layers_named(shape_model("flux.1-dev"), "double block"), 19);
  EXPECT_EQ(layers_named(shape_model("flux.1-dev"), "single block"), 38);
  EXPECT_EQ(cost::read_model(shape_text("qwen2.5-7b"), "models/qwen/config.json").name, "qwen");
}

TEST(ReadModel, GivesEveryArchitectureAName) {
  auto known = cost::known_architectures();
  EXPECT_EQ(known.size(), 18);
  for (const auto& architecture : cost::architectures()) {
    EXPECT_FALSE(architecture.towers.empty());
    EXPECT_EQ(std::count(known.begin(), known.end(), architecture.name), 1) << architecture.name;
  }
}

TEST(ReadModel, TakesTheArchitectureFromItsModelTypeWhereNoClassIsNamed) {
  for (const auto& name : shape_names()) {
    auto config = config_of(name);
    if (!config.contains("model_type")) continue;
    auto named = describe(read(config));
    config.erase("architectures");
    EXPECT_EQ(describe(read(config)), named) << name;
  }
}

TEST(ReadModel, HasLanguageModelsWithAndWithoutBiasesAndNorms) {
  auto parts_of = [](const json& config) {
    std::map<std::string, cost::Part> parts;
    auto model = read(config);
    for (const auto& part : model.layers[1].parts) parts[part.name] = part;
    return parts;
  };
  json dense = {{"architectures", {"LlamaForCausalLM"}},
                {"vocab_size", 100},
                {"hidden_size", 64},
                {"num_hidden_layers", 2},
                {"intermediate_size", 96},
                {"num_attention_heads", 4}};
  auto llama = parts_of(dense);
  EXPECT_FALSE(llama.at("self_attn.q_proj").bias);
  EXPECT_EQ(llama.at("self_attn.k_proj").out, 64);
  EXPECT_EQ(llama.count("self_attn.q_norm"), 0);
  dense["attention_bias"] = dense["mlp_bias"] = true;
  llama = parts_of(dense);
  for (const auto* name : {"q_proj", "k_proj", "v_proj", "o_proj"})
    EXPECT_TRUE(llama.at(std::string("self_attn.") + name).bias) << name;
  for (const auto* name : {"gate_proj", "up_proj", "down_proj"})
    EXPECT_TRUE(llama.at(std::string("mlp.") + name).bias) << name;
  dense["architectures"] = {"Qwen2ForCausalLM"};
  dense["num_key_value_heads"] = 2;
  auto qwen2 = parts_of(dense);
  EXPECT_TRUE(qwen2.at("self_attn.q_proj").bias);
  EXPECT_FALSE(qwen2.at("self_attn.o_proj").bias);
  EXPECT_EQ(qwen2.at("self_attn.k_proj").out, 32);
  dense["architectures"] = {"Qwen3ForCausalLM"};
  dense["attention_bias"] = false;
  auto qwen3 = parts_of(dense);
  EXPECT_FALSE(qwen3.at("self_attn.q_proj").bias);
  EXPECT_EQ(qwen3.at("self_attn.q_norm").in, 128);  // the class's own head_dim
  EXPECT_EQ(qwen3.at("self_attn.q_norm").per_row, 4);
  EXPECT_EQ(qwen3.at("self_attn.k_norm").per_row, 2);
}

TEST(ReadModel, MakesMixturesOfTheLayersThatTheConfigurationSays) {
  auto moe_layers = [](const json& config) {
    std::string layers;
    for (const auto& layer : read(config).layers)
      if (layer.name != "embedding" && layer.name != "head") layers += layer.name == "moe layer" ? 'm' : 'd';
    return layers;
  };
  auto config = small_moe();
  EXPECT_EQ(moe_layers(config), "mmmmmmmm");
  config["decoder_sparse_step"] = 2;
  EXPECT_EQ(moe_layers(config), "dmdmdmdm");
  config["decoder_sparse_step"] = 3;
  EXPECT_EQ(moe_layers(config), "ddmddmdd");
  config["mlp_only_layers"] = {2};
  EXPECT_EQ(moe_layers(config), "dddddmdd");
  config["decoder_sparse_step"] = 1;
  config["mlp_only_layers"] = {0, 7};
  EXPECT_EQ(moe_layers(config), "dmmmmmmd");
  config.erase("intermediate_size");
  expect_refused(config, {"lacks intermediate_size"});
  config["mlp_only_layers"] = json::array();
  EXPECT_EQ(moe_layers(config), "mmmmmmmm");
  config["num_experts"] = 0;
  config["num_experts_per_tok"] = 1;
  config["intermediate_size"] = 128;
  EXPECT_EQ(moe_layers(config), "dddddddd");
  config = small_moe();
  config["num_local_experts"] = config["num_experts"];
  config.erase("num_experts");
  EXPECT_EQ(describe(read(config)), describe(read(small_moe())));
}

TEST(ReadModel, RotatesQueriesAndKeysButInAudioEncoders) {
  for (const auto& name : shape_names()) {
    auto model = shape_model(name);
    for (const auto& layer : model.layers) {
      auto count = [&](auto&& holds) { return std::count_if(layer.parts.begin(), layer.parts.end(), holds); };
      auto attention = count([](const auto& part) { return part.kind == cost::PartKind::attention; });
      auto rotary = count([](const auto& part) { return part.name.ends_with("rotary"); });
      auto streams = layer.name == "double block" ? 2 : 1;
      EXPECT_EQ(rotary, model.family == cost::Family::audio ? 0 : streams * attention) << name;
    }
  }
}

TEST(ReadModel, GivesWindowsToAllVisionBlocksButThoseWithFullAttention) {
  auto model = shape_model("qwen2.5-vl-72b", Tower::vision);
  for (int64_t i = 0; i < 32; ++i) {
    bool full = i == 7 || i == 15 || i == 23 || i == 31;
    EXPECT_EQ(model.layers[size_t(i) + 1].name, full ? "block" : "window block") << i;
    for (const auto& part : model.layers[size_t(i) + 1].parts)
      EXPECT_EQ(part.window, part.kind == cost::PartKind::attention && !full ? 64 : 0) << part.name;
  }
  EXPECT_EQ(model.merge, 4);
  EXPECT_EQ(model.out, 8192);
}

TEST(ReadModel, PicksTheTowerOfACombinedModel) {
  auto config = config_of("qwen3-vl-8b");
  EXPECT_EQ(describe(read(config)), describe(read(config, Tower::text)));
  EXPECT_EQ(read(config, Tower::vision).family, cost::Family::vision);
  EXPECT_TRUE(cost::has_vision(config));
  EXPECT_FALSE(cost::has_vision(config_of("qwen2.5-7b")));
  EXPECT_FALSE(cost::has_vision(json::array()));
  expect_refused(config, {"Qwen3VLForConditionalGeneration has no part 'audio'; it has text, vision"},
                 Tower::audio);
  expect_refused(config_of("qwen2.5-7b"), {"Qwen2ForCausalLM has no part 'vision'; it has text"},
                 Tower::vision);

  json thinker = {{"text_config", config_of("qwen3-30b-a3b")},
                  {"vision_config", config_of("qwen3-omni-vision")},
                  {"audio_config", config_of("qwen3-omni-audio")}};
  json omni = {{"architectures", {"Qwen3OmniMoeForConditionalGeneration"}}, {"thinker_config", thinker}};
  EXPECT_TRUE(cost::has_vision(omni));
  thinker["model_type"] = "qwen3_omni_moe_thinker";
  for (const auto& whole : {omni, thinker}) {
    EXPECT_EQ(describe(read(whole)), describe(shape_model("qwen3-30b-a3b")));
    EXPECT_EQ(describe(read(whole, Tower::vision)), describe(shape_model("qwen3-omni-vision")));
    EXPECT_EQ(describe(read(whole, Tower::audio)), describe(shape_model("qwen3-omni-audio")));
  }
}

TEST(ReadModel, FindsTheLanguageModelOfOlderFilesBesideTheVisionPart) {
  auto config = config_of("qwen2.5-vl-72b");
  auto older = config;
  older.erase("text_config");
  older.update(config.at("text_config"));
  older["vision_config"]["in_chans"] = older["vision_config"]["in_channels"];
  older["vision_config"].erase("in_channels");
  for (auto tower : {Tower::text, Tower::vision})
    EXPECT_EQ(describe(read(older, tower)), describe(read(config, tower)));

  auto ocr = config_of("qwen2.5-7b");
  ocr["architectures"] = {"DotsOCRForCausalLM"};
  ocr["vision_config"] = config_of("dots-vit");
  EXPECT_EQ(describe(read(ocr)), describe(shape_model("qwen2.5-7b")));
  EXPECT_EQ(describe(read(ocr, Tower::vision)), describe(shape_model("dots-vit")));
}

TEST(ReadModel, TiesTheHeadWhereTheFileOrItsTextPartSaysSo) {
  auto tied = [](const json& config) {
    auto model = read(config);
    for (const auto& part : model.layers.back().parts)
      if (part.name == "lm_head") return part.tied;
    return false;
  };
  auto config = config_of("qwen3-vl-8b");
  EXPECT_FALSE(tied(config));
  config["tie_word_embeddings"] = true;
  EXPECT_TRUE(tied(config));
  config["text_config"]["tie_word_embeddings"] = false;
  EXPECT_TRUE(tied(config));
  config.erase("tie_word_embeddings");
  EXPECT_FALSE(tied(config));
  config["text_config"]["tie_word_embeddings"] = true;
  EXPECT_TRUE(tied(config));
}

TEST(ReadModel, TakesPublishedDefaultsForWhatIsMissing) {
  auto without = [](const std::string& name, const std::vector<std::string>& fields) {
    auto config = config_of(name);
    for (const auto& field : fields) EXPECT_EQ(config.erase(field), 1) << name << ' ' << field;
    return describe(read(config));
  };
  EXPECT_EQ(without("qwen3-30b-a3b", {"decoder_sparse_step", "mlp_only_layers", "tie_word_embeddings"}),
            describe(shape_model("qwen3-30b-a3b")));
  EXPECT_EQ(without("dots-vit",
                    {"num_channels", "temporal_patch_size", "spatial_merge_size", "use_bias", "post_norm"}),
            describe(shape_model("dots-vit")));
  EXPECT_EQ(without("qwen3-omni-vision", {"in_channels", "temporal_patch_size", "spatial_merge_size",
                                          "num_position_embeddings", "deepstack_visual_indexes"}),
            describe(shape_model("qwen3-omni-vision")));
  EXPECT_EQ(
      without("qwen3-omni-audio", {"num_mel_bins", "downsample_hidden_size", "n_window", "n_window_infer"}),
      describe(shape_model("qwen3-omni-audio")));
  EXPECT_EQ(without("qwen-image", {"in_channels", "out_channels", "patch_size"}),
            describe(shape_model("qwen-image")));
  EXPECT_EQ(without("flux.1-dev", {"in_channels", "patch_size", "pooled_projection_dim"}),
            describe(shape_model("flux.1-dev")));
}

TEST(ReadModel, PassesOverFieldsThatSayNothingAboutShapes) {
  auto config = config_of("qwen3-30b-a3b");
  auto plain = describe(read(config));
  config.update({{"rope_theta", 1e6},
                 {"torch_dtype", "bfloat16"},
                 {"use_sliding_window", false},
                 {"sliding_window", nullptr},
                 {"norm_topk_prob", true},
                 {"hidden_act", "silu"}});
  EXPECT_EQ(describe(read(config)), plain);
}

TEST(ReadModelTower, HasNames) {
  for (auto tower : {Tower::whole, Tower::text, Tower::vision, Tower::audio})
    EXPECT_EQ(cost::tower_from_name(name(tower)), tower);
  expect_told([] { cost::tower_from_name("visoin"); },
              {"unknown part of a model 'visoin' (did you mean 'vision'?)", "whole, text, vision, audio"});
}

}  // namespace
}  // namespace bigmac
