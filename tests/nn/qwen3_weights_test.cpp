#include "bigmac/nn/qwen3_weights.h"

#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "bigmac/runtime/safetensors.h"
#include "support.h"

namespace bigmac::nn {
namespace {

using namespace test;

std::string folder(const char* name) {
  return std::string(BIGMAC_SOURCE_DIR "/tests/nn/data/") + name + "/";
}

DecoderConfig config_of(const std::string& of) {
  std::ifstream file(of + "config.json");
  std::stringstream text;
  text << file.rdbuf();
  return read_qwen3_config(text.str(), of + "config.json");
}

nlohmann::json config_json(const char* name) {
  return nlohmann::json::parse(std::ifstream(folder(name) + "config.json"));
}

std::string error_of_config(const nlohmann::json& object) {
  return error_of([&] { read_qwen3_config(object.dump()); });
}

// The decoder's pieces under the names of one model.
struct Pieces : torch::nn::Module {
  explicit Pieces(const DecoderConfig& config) {
    embedding = register_module("embedding", torch::nn::Embedding(config.vocabulary, config.hidden));
    register_module("layers", layers);
    for (int64_t i = 0; i < config.layers; ++i) layers->push_back(DecoderLayer(config));
    head = register_module("head", DecoderHead(config.hidden, config.vocabulary, config.eps));
    to(torch::kDouble);
  }

  torch::Tensor logits(const torch::Tensor& tokens) {
    auto x = embed(embedding, tokens, {}, -1);
    for (const auto& layer : *layers) x = layer->as<DecoderLayer>()->forward(x);
    return head(x);
  }

  torch::nn::Embedding embedding{nullptr};
  torch::nn::ModuleList layers;
  DecoderHead head{nullptr};
};

void load(torch::nn::Module& module, const NamedTensors& tensors) {
  torch::NoGradGuard no_grad;
  auto parameters = module.named_parameters();
  ASSERT_EQ(parameters.size(), tensors.size());
  for (auto& item : parameters) item.value().copy_(tensors.at("llm." + item.key()));
}

// Tensors of the right names and shapes.
NamedTensors zeros_of(const DecoderConfig& config, std::string Qwen3Parameter::*name) {
  NamedTensors tensors;
  for (const auto& parameter : qwen3_parameters(config))
    tensors[parameter.*name] = torch::zeros(parameter.shape);
  return tensors;
}

class Qwen3FromElsewhere : public testing::TestWithParam<const char*> {};

TEST_P(Qwen3FromElsewhere, GivesTheLogitsItGivesThere) {
  const auto at = folder(GetParam());
  const auto config = config_of(at);
  Pieces model(config);
  load(model, from_qwen3(load_safetensors(at + "model.safetensors").tensors, config));
  auto expected = load_safetensors(at + "expected.safetensors").tensors;
  auto logits = model.logits(expected.at("tokens"));
  ASSERT_EQ(logits.sizes(), expected.at("logits").sizes());
  auto scale = expected.at("logits").abs().max().item<double>();
  EXPECT_GT(scale, 1);
  EXPECT_LT(largest_difference(logits, expected.at("logits")), 1e-10 * scale);
  EXPECT_LT(((logits - expected.at("logits")).abs() / expected.at("logits").abs().clamp_min(1e-2 * scale))
                .max()
                .item<double>(),
            1e-10);
}

TEST_P(Qwen3FromElsewhere, GoesBackToTheSameFile) {
  const auto at = folder(GetParam());
  const auto config = config_of(at);
  const auto theirs = load_safetensors(at + "model.safetensors").tensors;
  const auto back = to_qwen3(from_qwen3(theirs, config, "a.b."), config, "a.b.");
  ASSERT_EQ(back.size(), theirs.size());
  for (const auto& [name, tensor] : theirs) {
    ASSERT_TRUE(back.count(name)) << name;
    EXPECT_TRUE(back.at(name).is_same(tensor)) << name;
  }
}

TEST_P(Qwen3FromElsewhere, KeepsItsConfiguration) {
  const auto config = config_of(folder(GetParam()));
  const auto again = read_qwen3_config(qwen3_config_json(config));
  const auto written = nlohmann::json::parse(qwen3_config_json(again)), original = config_json(GetParam());
  for (const auto& item : written.items()) EXPECT_EQ(item.value(), original.at(item.key())) << item.key();
}

INSTANTIATE_TEST_SUITE_P(Dense, Qwen3FromElsewhere, testing::Values("qwen3-dense"));
INSTANTIATE_TEST_SUITE_P(Mixture, Qwen3FromElsewhere, testing::Values("qwen3-moe"));

TEST(Qwen3Weights, MapsEveryNameBothWays) {
  const auto config = config_of(folder("qwen3-moe"));
  auto dense = config_of(folder("qwen3-dense"));
  dense.layers = 4;
  const std::pair<const char*, const char*> known[] = {
      {"llm.embedding.weight", "model.embed_tokens.weight"},
      {"llm.layers.3.attention_norm.weight", "model.layers.3.input_layernorm.weight"},
      {"llm.layers.3.attention.q.weight", "model.layers.3.self_attn.q_proj.weight"},
      {"llm.layers.3.attention.o.weight", "model.layers.3.self_attn.o_proj.weight"},
      {"llm.layers.3.attention.k_norm.weight", "model.layers.3.self_attn.k_norm.weight"},
      {"llm.layers.3.mlp_norm.weight", "model.layers.3.post_attention_layernorm.weight"},
      {"llm.layers.3.mlp.gate.weight", "model.layers.3.mlp.gate_proj.weight"},
      {"llm.layers.3.mlp.down.weight", "model.layers.3.mlp.down_proj.weight"},
      {"llm.head.norm.weight", "model.norm.weight"},
  };
  for (const auto& [ours, theirs] : known) {
    EXPECT_EQ(to_qwen3_name(ours, dense), theirs);
    EXPECT_EQ(from_qwen3_name(theirs, dense), ours);
  }
  EXPECT_EQ(to_qwen3_name("x.layers.1.mlp.router.weight", config, "x."), "model.layers.1.mlp.gate.weight");
  EXPECT_EQ(to_qwen3_name("llm.layers.1.mlp.experts.5.up.weight", config),
            "model.layers.1.mlp.experts.5.up_proj.weight");
  EXPECT_EQ(from_qwen3_name("lm_head.weight", config), "llm.head.weight");
  for (const auto& of : {config, dense}) {
    std::set<std::string> ours, theirs;
    for (const auto& parameter : qwen3_parameters(of)) {
      ours.insert(parameter.ours);
      theirs.insert(parameter.theirs);
    }
    EXPECT_EQ(ours.size(), qwen3_parameters(of).size());
    EXPECT_EQ(theirs.size(), ours.size());
  }
}

TEST(Qwen3Weights, CountTheParametersOf30BA3B) {
  DecoderConfig config;
  config.vocabulary = 151936;
  config.hidden = 2048;
  config.layers = 48;
  config.heads = 32;
  config.kv_heads = 4;
  config.head_dim = 128;
  config.ffn = 6144;
  config.tied_embeddings = false;
  config.moe = MoeConfig{128, 8, 768, true};
  int64_t all = 0;
  for (const auto& parameter : qwen3_parameters(config)) {
    int64_t size = 1;
    for (auto side : parameter.shape) size *= side;
    all += size;
  }
  EXPECT_EQ(all, 30'532'122'624);
}

TEST(Qwen3Weights, NamesTheMissingAndTheExtraWithTheNearest) {
  const auto config = config_of(folder("qwen3-moe"));
  const auto whole = zeros_of(config, &Qwen3Parameter::theirs);
  auto error = [&](const NamedTensors& tensors) { return error_of([&] { from_qwen3(tensors, config); }); };
  EXPECT_EQ(error(whole), "");
  auto wrong = whole;
  wrong.erase("model.layers.1.self_attn.q_norm.weight");
  EXPECT_EQ(error(wrong),
            "Qwen3 weights: 1 of 57 parameters are missing, the first is "
            "'model.layers.1.self_attn.q_norm.weight'");
  wrong["model.layers.1.self_attn.q_layernorm.weight"] = torch::zeros({8});
  EXPECT_EQ(error(wrong),
            "Qwen3 weights: 1 of 57 parameters are missing, the first is "
            "'model.layers.1.self_attn.q_norm.weight'; the nearest is "
            "'model.layers.1.self_attn.q_layernorm.weight'");
  wrong = whole;
  wrong["model.layers.0.self_attn.q_proj.bias"] = torch::zeros({8});
  EXPECT_EQ(
      error(wrong),
      "Qwen3 weights: 1 names do not belong to the model, the first is "
      "'model.layers.0.self_attn.q_proj.bias'; the nearest is 'model.layers.0.self_attn.q_proj.weight'");
  EXPECT_EQ(error_of([&] { to_qwen3_name("llm.layers.0.mlp.ruoter.weight", config); }),
            "Qwen3 weights: unknown parameter 'llm.layers.0.mlp.ruoter.weight' (did you mean "
            "'llm.layers.0.mlp.router.weight'?)");
}

TEST(Qwen3Weights, GivesBothShapes) {
  const auto config = config_of(folder("qwen3-moe"));
  auto theirs = zeros_of(config, &Qwen3Parameter::theirs);
  theirs["model.layers.1.mlp.gate.weight"] = torch::zeros({7, 16});
  EXPECT_EQ(error_of([&] { from_qwen3(theirs, config); }),
            "Qwen3 weights: 'model.layers.1.mlp.gate.weight' has the shape [7, 16], the configuration gives "
            "[6, 16]");
  auto ours = zeros_of(config, &Qwen3Parameter::ours);
  ours["llm.embedding.weight"] = torch::zeros({16, 32});
  EXPECT_EQ(error_of([&] { to_qwen3(ours, config); }),
            "Qwen3 weights: 'llm.embedding.weight' has the shape [16, 32], the configuration gives [32, 16]");
}

TEST(Qwen3Weights, TiesTheHeadToTheEmbedding) {
  const auto config = config_of(folder("qwen3-dense"));
  ASSERT_TRUE(config.tied_embeddings);
  auto theirs = zeros_of(config, &Qwen3Parameter::theirs);
  EXPECT_FALSE(theirs.count("lm_head.weight"));
  auto ours = from_qwen3(theirs, config);
  EXPECT_TRUE(ours.at("llm.head.weight").is_same(ours.at("llm.embedding.weight")));
  EXPECT_FALSE(to_qwen3(ours, config).count("lm_head.weight"));

  theirs["lm_head.weight"] = theirs.at("model.embed_tokens.weight").clone();
  EXPECT_EQ(from_qwen3(theirs, config).size(), ours.size());
  theirs["lm_head.weight"] = theirs.at("lm_head.weight") + 1;
  EXPECT_NE(error_of([&] {
              from_qwen3(theirs, config);
            }).find("'lm_head.weight' differs from 'model.embed_tokens.weight', but the configuration ties"),
            std::string::npos);
  ours["llm.head.weight"] = torch::ones({config.vocabulary, config.hidden});
  EXPECT_NE(error_of([&] { to_qwen3(ours, config); }).find("'llm.head.weight' differs"), std::string::npos);
}

TEST(Qwen3Config, ReadsTheFieldsOfAMixture) {
  const auto config = config_of(folder("qwen3-moe"));
  EXPECT_EQ(config.vocabulary, 32);
  EXPECT_EQ(config.hidden, 16);
  EXPECT_EQ(config.layers, 2);
  EXPECT_EQ(config.kv_heads, 2);
  EXPECT_EQ(config.head_dim, 8);
  EXPECT_EQ(config.rope_theta, 1e4);
  EXPECT_EQ(config.eps, 1e-6);
  EXPECT_FALSE(config.tied_embeddings);
  ASSERT_TRUE(config.moe);
  EXPECT_EQ(config.moe->experts, 6);
  EXPECT_EQ(config.moe->experts_per_token, 2);
  EXPECT_EQ(config.moe->ffn, 12);
  EXPECT_TRUE(config.moe->normalise_top_k);
}

TEST(Qwen3Config, ReadsTheRotaryBaseOfNewerFiles) {
  auto object = config_json("qwen3-dense");
  object.erase("rope_theta");
  object.erase("rope_scaling");
  object["rope_parameters"] = {{"rope_theta", 5e5}, {"rope_type", "default"}};
  EXPECT_EQ(read_qwen3_config(object.dump()).rope_theta, 5e5);
  object["rope_parameters"]["rope_type"] = "yarn";
  EXPECT_EQ(error_of_config(object),
            "config.json: rope_parameters: rope_type is \"yarn\", only \"default\" is supported");
}

TEST(Qwen3Config, RefusesWhatItWouldComputeOtherwise) {
  const auto whole = config_json("qwen3-moe");
  EXPECT_EQ(error_of_config(whole), "");
  auto with = [&](const char* name, const nlohmann::json& value) {
    auto object = whole;
    object[name] = value;
    return error_of_config(object);
  };
  EXPECT_EQ(with("model_type", "qwen2"),
            "config.json: model_type is \"qwen2\", expected \"qwen3\" or \"qwen3_moe\"");
  EXPECT_EQ(with("attention_bias", true), "config.json: attention_bias is true, only false is supported");
  EXPECT_EQ(with("use_sliding_window", true),
            "config.json: use_sliding_window is true, only false is supported");
  EXPECT_EQ(with("hidden_act", "gelu"), "config.json: hidden_act is \"gelu\", only \"silu\" is supported");
  EXPECT_EQ(with("decoder_sparse_step", 2), "config.json: decoder_sparse_step is 2, only 1 is supported");
  EXPECT_EQ(with("mlp_only_layers", {0}), "config.json: mlp_only_layers is [0], only [] is supported");
  EXPECT_EQ(with("rope_scaling", {{"rope_type", "yarn"}, {"factor", 4}}),
            "config.json: rope_scaling: rope_type is \"yarn\", only \"default\" is supported");
  EXPECT_EQ(with("hidden_size", 0), "config.json: hidden_size is 0, expected a whole number from 1 on");
  EXPECT_EQ(with("hidden_size", "16"),
            "config.json: hidden_size is \"16\", expected a whole number from 1 on");
  EXPECT_EQ(with("rms_norm_eps", -1), "config.json: rms_norm_eps is -1, expected a number above 0");
  EXPECT_EQ(with("num_key_value_heads", 3), "config.json: decoder: heads 4 is not divisible by kv_heads 3");
  EXPECT_EQ(with("num_experts_per_tok", 7),
            "config.json: mixture of experts: experts_per_token is 7, expected at most the 6 experts");
  auto object = whole;
  object["num_hidden_layer"] = object["num_hidden_layers"];
  object.erase("num_hidden_layers");
  EXPECT_EQ(error_of_config(object),
            "config.json: num_hidden_layers is missing (is 'num_hidden_layer' meant?)");
  EXPECT_NE(error_of([] { read_qwen3_config("{", "a/config.json"); }).find("a/config.json: not JSON"),
            std::string::npos);
  EXPECT_EQ(error_of([] { read_qwen3_config("[1]"); }), "config.json: expected an object of fields");
}

}  // namespace
}  // namespace bigmac::nn
