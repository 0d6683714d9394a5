#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "bigmac/common/error.h"
#include "tests/apps/workload_files.h"

namespace bigmac {
namespace {

using nlohmann::json;

json estimate(const std::string& arguments) {
  auto outcome = run_bigmac("estimate --json " + arguments);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  return json::parse(outcome.out);
}

TEST(EstimateCommand, CountsThePublishedModels) {
  std::pair<const char*, int64_t> published[] = {
      {"qwen3-30b-a3b", 30'532'122'624}, {"qwen3-235b-a22b", 235'093'634'560}, {"qwen2.5-7b", 7'615'616'512},
      {"qwen2.5-72b", 72'706'203'648},   {"qwen-image", 20'430'401'088},       {"dots-vit", 1'262'091'264}};
  for (auto [model, parameters] : published)
    EXPECT_EQ(estimate(kModels + model + ".json")["total"]["parameters"], parameters) << model;
  EXPECT_EQ(estimate(kModels + "qwen3-30b-a3b.json")["total"]["active_parameters"], 3'353'032'704);
}

TEST(EstimateCommand, PrintsATableByKindOfLayerAndWhatOneGpuHolds) {
  auto outcome = run_bigmac("estimate " + kModels + "qwen3-30b-a3b.json --tokens 8K");
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.err, "");
  EXPECT_TRUE(
      contains(outcome.out,
               "qwen3-30b-a3b: 30,532,122,624 parameters, 28,991,029,248 of them in experts; 3,353,032,704 "
               "active for a token\n1 sequence of 8192 tokens, TP 1 DP 1 EP 1, recompute none, H800\n"));
  EXPECT_TRUE(contains(outcome.out, "\n48 x moe layer  29,909,790,720 "));
  EXPECT_TRUE(contains(outcome.out, "\nall             30,532,122,624 "));
  EXPECT_TRUE(contains(outcome.out,
                       "\none GPU without pipeline stages: 570 GiB; H800 has 80.0 GiB\n"
                       "  56.9 GiB  parameters\n   114 GiB  gradients\n"));
}

TEST(EstimateCommand, PutsLayersAlikeInOneLineWhereverTheyStand) {
  auto out = run_bigmac("estimate --tower vision " + kModels + "qwen2.5-vl-72b.json").out;
  EXPECT_TRUE(contains(out, "\n28 x window block "));
  EXPECT_TRUE(contains(out, "\n4 x block "));
}

TEST(EstimateCommand, AddsItsLinesUp) {
  for (const char* arguments : {"qwen3-30b-a3b.json --tp 2 --dp 8 --ep 8 --recompute selective",
                                "qwen-image.json --text 256", "qwen3-vl-8b.json --tower vision"}) {
    auto report = estimate(kModels + arguments);
    for (const char* key : {"layers", "parameters", "forward_flops", "activation_bytes", "optimizer_bytes",
                            "forward_seconds", "backward_seconds", "traffic_seconds"}) {
      double sum = 0;
      for (const auto& line : report["by_layer"]) sum += line[key].get<double>();
      EXPECT_NEAR(report["total"][key].get<double>(), sum, 1e-9 * sum) << arguments << " " << key;
    }
  }
}

TEST(EstimateCommand, DividesWhatParallelismDivides) {
  auto whole = estimate(kModels + "qwen3-30b-a3b.json")["total"];
  auto shared = estimate(kModels + "qwen3-30b-a3b.json --dp 16 --ep 16")["total"];
  EXPECT_EQ(shared["parameters"], whole["parameters"]);
  EXPECT_EQ(shared["forward_flops"], whole["forward_flops"]);
  double experts = whole["expert_parameters"], dense = whole["parameters"].get<double>() - experts;
  EXPECT_DOUBLE_EQ(shared["parameter_bytes"], 2 * (dense + experts / 16));
  EXPECT_DOUBLE_EQ(shared["optimizer_bytes"], 12 * (dense / 16 + experts / 16));
}

TEST(EstimateCommand, KeepsLessAndTakesLongerTheMoreIsRecomputed) {
  double bytes = 1e99, seconds = 0;
  for (const char* level : {"none", "selective", "full"}) {
    auto total = estimate(kModels + "qwen2.5-7b.json --recompute " + level)["total"];
    EXPECT_LT(total["activation_bytes"], bytes) << level;
    EXPECT_GT(total["backward_seconds"], seconds) << level;
    bytes = total["activation_bytes"];
    seconds = total["backward_seconds"];
  }
}

TEST(EstimateCommand, LeavesAFrozenEncoderWithoutABackward) {
  auto total = estimate(kModels + "dots-vit.json --frozen")["total"];
  for (const char* key : {"input_flops", "weight_flops", "backward_seconds", "activation_bytes",
                          "gradient_bytes", "optimizer_bytes"})
    EXPECT_EQ(total[key], 0) << key;
  auto passed = estimate(kModels + "qwen2.5-7b.json --frozen")["total"];
  EXPECT_EQ(passed["weight_flops"], 0);
  EXPECT_GT(passed["input_flops"], 0);
}

TEST(EstimateCommand, TellsOfOptionsWithoutEffect) {
  auto text = run_bigmac("estimate --text 5 " + kModels + "qwen2.5-7b.json");
  EXPECT_EQ(text.err, "bigmac: note: the model has one stream: --text has no effect\n");
  EXPECT_TRUE(contains(text.out, "1 sequence of 4096 tokens, TP 1"));
  auto experts = run_bigmac("estimate --ep 2 --dp 2 " + kModels + "qwen2.5-7b.json");
  EXPECT_EQ(experts.err, "bigmac: note: the model has no experts: --ep has no effect\n");
}

TEST(EstimateCommand, RefusesSizesThatDoNotDivide) {
  expect_wrong("estimate --tp 3 " + kModels + "qwen3-30b-a3b.json",
               "[parallel] tensor 3 does not divide the 4096 outputs of self_attn.q_proj in moe layer; the "
               "next smaller "
               "that does is 2");
  expect_wrong("estimate --tp 8 " + kModels + "qwen2.5-7b.json",
               "[parallel] tensor 8 does not divide the 28 heads of self_attn.attention in layer; the next "
               "smaller that "
               "does is 7");
  expect_wrong("estimate --ep 3 " + kModels + "qwen3-30b-a3b.json",
               "[parallel] expert 3 must divide tensor * data = 1 * 1 = 1");
}

TEST(EstimateCommand, RefusesCountsThatAreNone) {
  for (const char* option : {"--tokens", "--text"}) {
    auto file = kModels + "qwen-image.json";
    for (const char* value : {"-1", "nan", "1e400", "x", "", "1.5"})
      expect_wrong(
          {"estimate", file, option, value},
          std::string(option) + ": must be a whole number such as 8192, 8K or 1M, got '" + value + "'");
    for (const char* value : {"0", "1e13"})
      expect_wrong({"estimate", file, option, value},
                   std::string(option) + ": must be from 1 to 1099511627776, got '" + value + "'");
  }
  for (const char* option : {"--tp", "--dp", "--ep", "--sequences"})
    for (const char* value : {"0", "-2", "two"})
      expect_wrong({"estimate", kModels + "qwen-image.json", option, value},
                   std::string(option) + " must be a whole number from 1 to 268435456, got '" + value + "'");
}

TEST(EstimateCommand, NamesTheNearestOfWhatItKnows) {
  auto model = kModels + "qwen2.5-vl-72b.json ";
  expect_wrong("estimate " + model + "--tower vission",
               "--tower: unknown part of a model 'vission' (did you mean 'vision'?); known: whole, text, "
               "vision, audio");
  expect_wrong("estimate " + model + "--hardware H80",
               "--hardware: unknown hardware 'H80' (did you mean 'H800'?); known: H800, H100, H200, A100");
  expect_wrong("estimate " + model + "--recompute ful",
               "--recompute: unknown recompute 'ful' (did you mean 'full'?); known: none, selective, full");
  expect_wrong("estimate " + model + "--recomputed full",
               "unknown option '--recomputed' (did you mean '--recompute'?); see bigmac estimate --help");
}

TEST(EstimateCommand, SaysWhichPartsAModelHas) {
  auto model = kModels + "qwen2.5-7b.json";
  for (const char* tower : {"vision", "audio"})
    expect_wrong(concat("estimate --tower ", tower, " ", model),
                 concat("[model] ", model, ": Qwen2ForCausalLM has no part '", tower, "'; it has text"));
}

TEST(EstimateCommand, SaysOfAnUnknownModelWhatItHasAndLacks) {
  WrittenFile file("unknown.json", R"({"architectures": ["Qwen4ForCausalLM"], "hidden_size": 1024,
                                       "num_hidden_layers": 28})");
  auto outcome = run_bigmac({"estimate", file.path()});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_TRUE(contains(outcome.err,
                       "[model] " + file.path() +
                           ": unknown architecture 'Qwen4ForCausalLM' (did you mean 'Qwen2ForCausalLM'?); "
                           "known: LlamaForCausalLM, "));
  EXPECT_TRUE(contains(outcome.err,
                       "; of the fields that Qwen2ForCausalLM needs it has hidden_size, num_hidden_layers"));
  EXPECT_TRUE(contains(outcome.err, "num_attention_heads"));
}

TEST(EstimateCommand, NamesEveryMissingField) {
  WrittenFile file("lacks.json", R"({"architectures": ["Qwen3ForCausalLM"], "hidden_sze": 1024,
                                     "num_hidden_layers": 28})");
  expect_wrong({"estimate", file.path()},
               "[model] " + file.path() +
                   ": lacks what Qwen3ForCausalLM needs: vocab_size, hidden_size (it has 'hidden_sze'), "
                   "num_attention_heads, num_key_value_heads, intermediate_size");
}

TEST(EstimateCommand, PointsAtWhereAFileBreaksOff) {
  WrittenFile file("truncated.json", "{\"architectures\": [\"Qwen3ForCausalLM\"],\n \"hidden_size\": 1024");
  expect_wrong({"estimate", file.path()}, "[model] " + file.path() + ":2:21: the JSON ends too early");
}

TEST(EstimateCommand, RefusesAHundredMegabytesAtOnce) {
  WrittenFile file("large.json", "{\"a\": [");
  std::filesystem::resize_file(file.path(), 100'000'000);
  auto begin = std::chrono::steady_clock::now();
  expect_wrong({"estimate", file.path()},
               "[model] cannot read '" + file.path() + "': it has more than 4194304 bytes");
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
}

TEST(EstimateCommand, RefusesFilesThatAreNotThere) {
  expect_wrong("estimate nowhere.json", "[model] cannot read 'nowhere.json': No such file or directory");
  expect_wrong("estimate /", "[model] cannot read '/': it is a folder; right would be its config.json");
  expect_wrong("estimate", "CONFIG is required; see bigmac estimate --help");
}

TEST(EstimateCommand, ReplacesWhatIsNotUtf8InItsJson) {
  WrittenFile file("na\xffme.json", text_of(kModels + "dots-vit.json"));
  auto outcome = run_bigmac({"estimate", "--json", file.path()});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_NO_THROW(json::parse(outcome.out));
}

}  // namespace
}  // namespace bigmac
