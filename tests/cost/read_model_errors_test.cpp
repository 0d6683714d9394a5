#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

#include "bigmac/cost/architectures.h"
#include "bigmac/cost/count.h"
#include "bigmac/cost/read_model.h"
#include "tests/cost/layers.h"
#include "tests/cost/models.h"

namespace bigmac {
namespace {

using cost::Tower;
using nlohmann::json;

json config_of(const std::string& name) {
  return json::parse(shape_text(name));
}

void expect_refused(const json& config, const std::vector<std::string>& parts, Tower tower = Tower::whole) {
  expect_told([&] { cost::model_from(config, "config.json", tower); }, parts);
}

// An architecture's smallest file: every field that it needs, for every tower it has.
json smallest(const cost::Architecture& architecture) {
  json config = {{"architectures", {architecture.name}}};
  for (const auto& tower : architecture.towers) {
    json* object = &config;
    for (const auto& key : tower.path) object = &(*object)[key];
    for (const auto& field : tower.needs) (*object)[field] = field == "patch_size" ? 14 : 16;
  }
  return config;
}

json& object_of(json& config, const cost::TowerReader& tower) {
  json* object = &config;
  for (const auto& key : tower.path) object = &(*object)[key];
  return *object;
}

std::string full_name(const cost::TowerReader& tower, const std::string& field) {
  std::string name;
  for (const auto& key : tower.path) name += key + '.';
  return name + field;
}

TEST(ReadModelErrors, NameEveryNeededFieldThatIsMissing) {
  for (const auto& architecture : cost::architectures())
    for (const auto& tower : architecture.towers)
      for (const auto& field : tower.needs) {
        SCOPED_TRACE(architecture.name + ' ' + field);
        auto config = smallest(architecture);
        object_of(config, tower).erase(field);
        expect_refused(config,
                       {"[model] config.json: lacks what", architecture.name, full_name(tower, field)},
                       tower.tower);
        object_of(config, tower)[field] = nullptr;
        expect_refused(config, {full_name(tower, field) + " (it is null)"}, tower.tower);
      }
}

TEST(ReadModelErrors, NameEveryNeededFieldOfAWrongTypeOrSize) {
  const std::vector<json> wrong = {"16",
                                   "",
                                   -1,
                                   16.5,
                                   16.0,
                                   1e30,
                                   true,
                                   json::array({16}),
                                   json::object(),
                                   int64_t{1} << 40,
                                   uint64_t(-1),
                                   std::numeric_limits<int64_t>::min()};
  for (const auto& architecture : cost::architectures())
    for (const auto& tower : architecture.towers)
      for (const auto& field : tower.needs)
        for (const auto& value : wrong) {
          SCOPED_TRACE(architecture.name + ' ' + field + ' ' + value.dump());
          auto config = smallest(architecture);
          object_of(config, tower)[field] = value;
          expect_refused(config,
                         {"config.json: " + full_name(tower, field) + " must be a whole number from "},
                         tower.tower);
        }
}

TEST(ReadModelErrors, RefuseSizesOfZero) {
  for (const auto& architecture : cost::architectures())
    for (const auto& tower : architecture.towers)
      for (const auto& field : tower.needs) {
        if (field == "num_experts" || field == "num_layers" || field == "num_single_layers") continue;
        auto config = smallest(architecture);
        object_of(config, tower)[field] = 0;
        expect_refused(config, {full_name(tower, field) + " must be a whole number from 1 to ", "got 0"},
                       tower.tower);
      }
  auto config = config_of("qwen-image");
  config["num_layers"] = 0;
  expect_refused(config, {"num_layers must be at least 1"});
  config = config_of("flux.1-dev");
  config["num_layers"] = config["num_single_layers"] = 0;
  expect_refused(config, {"num_layers and num_single_layers must not both be 0"});
}

TEST(ReadModelErrors, RefuseABillionLayersAtOnce) {
  auto begin = std::chrono::steady_clock::now();
  for (const auto& architecture : cost::architectures())
    for (const auto& tower : architecture.towers)
      for (const auto& field : tower.needs) {
        if (!field.ends_with("layers") && field != "depth") continue;
        for (int64_t layers : {int64_t{4097}, int64_t{1000000000}, std::numeric_limits<int64_t>::max()}) {
          auto config = smallest(architecture);
          object_of(config, tower)[field] = layers;
          expect_refused(config, {full_name(tower, field) + " must be a whole number from", "to 4096, got"},
                         tower.tower);
        }
      }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
}

TEST(ReadModelErrors, RefuseMoreParametersThanCanBeCounted) {
  auto config = config_of("qwen3-30b-a3b");
  config["num_hidden_layers"] = 4096;
  EXPECT_GT(parameters(cost::model_from(config, "config.json")).all, int64_t{2} << 40);
  config["hidden_size"] = 1 << 18;
  config["moe_intermediate_size"] = 1 << 20;
  config["num_experts"] = 4096;
  expect_refused(config, {"its sizes make", "parameters"});
}

TEST(ReadModelErrors, NameTheSizesThatDoNotDivide) {
  auto config = config_of("qwen3-30b-a3b");
  config["num_key_value_heads"] = 5;
  expect_refused(config, {"num_key_value_heads 5 must divide num_attention_heads 32"});
  config = config_of("qwen2.5-7b");
  config["hidden_size"] = 3585;
  expect_refused(config, {"num_attention_heads 28 must divide hidden_size 3585"});
  config = config_of("qwen3-vl-8b");
  config["vision_config"]["num_heads"] = 7;
  expect_refused(config, {"vision_config.num_heads 7 must divide vision_config.hidden_size 1152"},
                 Tower::vision);
  config = config_of("dots-vit");
  config["num_attention_heads"] = 13;
  expect_refused(config, {"num_attention_heads 13 must divide embed_dim 1536"});
  config = config_of("qwen3-omni-audio");
  config["encoder_attention_heads"] = 19;
  expect_refused(config, {"encoder_attention_heads 19 must divide d_model 1280"});
  config = config_of("qwen2.5-vl-72b");
  config["vision_config"]["window_size"] = 100;
  expect_refused(config, {"vision_config.patch_size 14 must divide vision_config.window_size 100"},
                 Tower::vision);
}

TEST(ReadModelErrors, NameWhatIsWrongWithExpertsAndLists) {
  auto config = config_of("qwen3-30b-a3b");
  config["num_experts_per_tok"] = 129;
  expect_refused(config, {"num_experts_per_tok must be a whole number from 1 to 128, got 129"});
  for (const auto& list : {json(48), json::array({48}), json::array({-1}), json::array({"1"}),
                           json::array({1.0}), json::array({3, 4, 3})}) {
    config = config_of("qwen3-30b-a3b");
    config["mlp_only_layers"] = list;
    expect_refused(config, {"mlp_only_layers must be a list of different whole numbers from 0 to 47, got "});
  }
  config = config_of("qwen3-30b-a3b");
  config["decoder_sparse_step"] = 0;
  expect_refused(config, {"decoder_sparse_step must be"});
  config = config_of("qwen3-30b-a3b");
  config["tie_word_embeddings"] = "yes";
  expect_refused(config, {"tie_word_embeddings must be true or false, got 'yes'"});
  config = config_of("qwen3-omni-vision");
  config["deepstack_visual_indexes"] = {27};
  expect_refused(config, {"deepstack_visual_indexes", "0 to 26, got 27"});
  config = config_of("qwen3-omni-audio");
  config["n_window_infer"] = 99;
  expect_refused(config, {"n_window_infer must be at least 2 n_window, 100"});
}

TEST(ReadModelErrors, RefuseSlidingWindowsRatherThanCountThemWrongly) {
  auto config = config_of("qwen2.5-7b");
  config["use_sliding_window"] = true;
  expect_refused(config, {"use_sliding_window", "not counted"});
  config["max_window_layers"] = 27;
  expect_refused(config, {"use_sliding_window", "not counted"});
  config["max_window_layers"] = 28;
  EXPECT_EQ(describe(cost::model_from(config, "config.json")), describe(shape_model("qwen2.5-7b")));
}

TEST(ReadModelErrors, NameTheNearestArchitectureAndWhatTheFileHasOfIt) {
  auto config = config_of("qwen3-30b-a3b");
  config["architectures"] = {"Qwen4MoeForCausalLM"};
  config["model_type"] = "qwen4_moe";
  config.erase("num_experts");
  expect_refused(config, {"unknown architecture 'Qwen4MoeForCausalLM' (did you mean 'Qwen3MoeForCausalLM'?)",
                          "known: LlamaForCausalLM,", "of the fields that Qwen3MoeForCausalLM needs it has",
                          "hidden_size", "and lacks num_experts"});
  config = {{"_class_name", "SD3Transformer2DModel"}, {"num_layers", 24}};
  expect_refused(config, {"unknown architecture 'SD3Transformer2DModel'", "it has num_layers", "and lacks",
                          "joint_attention_dim"});
  config = {{"model_type", "qwen3_mo"}};
  expect_refused(config, {"unknown model_type 'qwen3_mo' (did you mean 'qwen3_moe'?)", "known: llama,",
                          "has no field that says a size"});
  config = {{"architectures", {"DeepseekV3ForCausalLM"}}, {"hidden_size", 7168}, {"vocab_size", 129280}};
  expect_refused(config, {"unknown architecture 'DeepseekV3ForCausalLM'; known: ",
                          "it has vocab_size, hidden_size and lacks num_hidden_layers"});
  config = config_of("qwen2.5-7b");
  config["architectures"] = {"OurCompanysModel"};
  expect_refused(config, {"unknown architecture 'OurCompanysModel'",
                          "its model_type is that of Qwen2ForCausalLM", "and lacks none"});
}

TEST(ReadModelErrors, SayWhatIsMissingWhereNoModelIsNamed) {
  auto config = config_of("qwen3-30b-a3b");
  config.erase("architectures");
  config.erase("model_type");
  expect_refused(config, {"names no model in architectures, _class_name or model_type", "LlamaForCausalLM",
                          "of the fields that Qwen3MoeForCausalLM needs", "and lacks none"});
  expect_refused(json::object(), {"names no model", "has no field that says a size"});
  for (const auto& wrong : {json("Qwen3ForCausalLM"), json::array(), json::array({"A", "B"}), json(1)}) {
    config["architectures"] = wrong;
    expect_refused(config, {"architectures must be a list of one class"});
  }
  config["architectures"] = json::array({1});
  expect_refused(config, {"architectures must name a class, got 1"});
}

TEST(ReadModelErrors, NameFieldsThatWereMisspelt) {
  auto config = config_of("qwen3-30b-a3b");
  config["hiden_size"] = config["hidden_size"];
  config.erase("hidden_size");
  expect_refused(config, {"lacks what Qwen3MoeForCausalLM needs: hidden_size (it has 'hiden_size')"});
  config = config_of("qwen3-vl-8b");
  config.erase("vision_config");
  expect_refused(config, {"lacks vision_config"}, Tower::vision);
  config["vision_config"] = 3;
  expect_refused(config, {"vision_config must be an object, got 3"}, Tower::vision);
}

}  // namespace
}  // namespace bigmac
