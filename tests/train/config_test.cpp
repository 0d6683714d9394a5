#include "bigmac/train/config.h"

#include <gtest/gtest.h>

#include "bigmac/common/error.h"

namespace bigmac::train {
namespace {

std::string error_of(const std::string& yaml) {
  try {
    parse_config(yaml, "run.yaml");
  } catch (const InvalidInput& error) {
    return error.what();
  }
  return "no error";
}

TEST(Configuration, ReadsWhatItWrites) {
  Config config;
  config.backbone.hidden = 64;
  config.pp = 4;
  config.vpp = 2;
  config.batch.microbatches = 16;
  config.optimizer.learning_rate = 1.0 / 3;
  config.schedule = Arrangement::three_phase;
  config.base = Base::zb_v;
  config.warmup_units = 5;
  config.generator_unit = 2;
  config.order = Order::balanced;
  config.ranks_as = RanksAs::processes;
  config.dtype = "float64";
  config.complete();
  auto again = parse_config(to_yaml(config), "again.yaml");
  EXPECT_EQ(to_yaml(again), to_yaml(config));
  EXPECT_EQ(again.optimizer.learning_rate, config.optimizer.learning_rate);
  EXPECT_EQ(again.schedule, Arrangement::three_phase);
  EXPECT_EQ(again.base, Base::zb_v);
  EXPECT_EQ(again.order, Order::balanced);
  EXPECT_EQ(again.encoder.out, 64);
}

TEST(Configuration, KeepsDefaultsOfWhatIsLeftOut) {
  auto config = parse_config("backbone: {layers: 4}\n", "run.yaml");
  EXPECT_EQ(config.backbone.layers, 4);
  EXPECT_EQ(config.backbone.hidden, Config().backbone.hidden);
  EXPECT_EQ(to_yaml(parse_config("", "empty.yaml")), to_yaml(parse_config("{}", "empty.yaml")));
}

TEST(Configuration, OfTheDemoIsRead) {
  auto config = read_config(std::string(BIGMAC_SOURCE_DIR) + "/configs/emoji.yaml");
  EXPECT_EQ(config.pp, 4);
  EXPECT_EQ(config.vpp, 2);
}

TEST(Configuration, NamesAnUnknownKeyWithItsPlaceAndTheNearestKnownOne) {
  EXPECT_EQ(
      error_of("backbone:\n  hiden: 64\n"),
      "run.yaml:2:3: unknown key of backbone 'hiden' (did you mean 'hidden'?); known: hidden, layers, heads, "
      "kv_heads, head_dim, ffn, rope_theta, tied_embeddings");
  EXPECT_NE(
      error_of("paralel: {pp: 2}\n").find("run.yaml:1:1: unknown key 'paralel' (did you mean 'parallel'?)"),
      std::string::npos);
}

TEST(Configuration, NamesThePlaceOfMalformedYaml) {
  EXPECT_EQ(error_of("steps: 3\nbackbone: {layers: 4\n").substr(0, 11), "run.yaml:3:");
  EXPECT_EQ(error_of("steps: [1, 2\n").substr(0, 11), "run.yaml:2:");
  EXPECT_EQ(error_of("a: b: c\n").substr(0, 13), "run.yaml:1:5:");
}

TEST(Configuration, NamesAValueOfTheWrongKind) {
  EXPECT_EQ(error_of("steps: many\n"), "run.yaml:1:8: steps must be a whole number, got 'many'");
  EXPECT_EQ(error_of("optimizer: {learning_rate: fast}\n"),
            "run.yaml:1:28: optimizer.learning_rate must be a number, got 'fast'");
  EXPECT_EQ(error_of("parallel: 4\n"), "run.yaml:1:11: parallel must be a mapping");
  EXPECT_EQ(error_of("steps: [1]\n"), "run.yaml:1:8: steps must be a whole number, got a list or mapping");
  EXPECT_EQ(
      error_of("parallel: {schedule: nestd}\n"),
      "run.yaml:1:22: parallel.schedule: unknown schedule 'nestd' (did you mean 'nested'?); known: llm-only, "
      "nested, nested-fill, three-phase, optimus, megatron, disttrain");
  EXPECT_EQ(
      error_of("parallel: {base: 1f1c}\n"),
      "run.yaml:1:18: parallel.base: unknown base schedule '1f1c' (did you mean '1f1b'?); known: gpipe, "
      "1f1b, interleaved, zb-h1, zb-v, dualpipe-v, custom");
  EXPECT_EQ(
      error_of("parallel: {order: balancd}\n"),
      "run.yaml:1:19: parallel.order: unknown order 'balancd' (did you mean 'balanced'?); known: as-is, "
      "balanced");
}

TEST(Configuration, TakesTheBaseFromTheChunksWhereNoneIsGiven) {
  EXPECT_EQ(step_of(parse_config("parallel: {vpp: 1}\n", "run.yaml")).base, Base::one_f_one_b);
  EXPECT_EQ(step_of(parse_config("parallel: {pp: 2, vpp: 2}\n", "run.yaml")).base, Base::interleaved);
  EXPECT_EQ(step_of(parse_config("parallel: {pp: 2, vpp: 2, base: dualpipe-v}\n", "run.yaml")).base,
            Base::dualpipe_v);
}

TEST(Configuration, RefusesWhatDoesNotFitTogether) {
  EXPECT_NE(error_of("parallel: {pp: 4, vpp: 2, base: zb-h1}\n")
                .find("[zb-h1] holds one chunk a rank, got P=4 V=2 M=8; take V=1 or the base 'zb-v'"),
            std::string::npos);
  EXPECT_NE(error_of("parallel: {base: custom}\n").find("a custom base has no order of its own"),
            std::string::npos);
  EXPECT_NE(error_of("parallel: {pp: 2, generator_unit: 3}\n")
                .find("the generator's unit (k) must be from 1 to P microbatches, got 3"),
            std::string::npos);
  EXPECT_NE(error_of("parallel: {warmup_units: -1}\n").find("got -1"), std::string::npos);
  EXPECT_NE(error_of("parallel: {pp: 0}\n").find("ranks (P) must be at least 1, got 0"), std::string::npos);
  EXPECT_NE(error_of("parallel: {vpp: -2}\n").find("chunks (V) must be at least 1, got -2"),
            std::string::npos);
  EXPECT_NE(error_of("batch: {microbatches: 99999999999}\n").find("microbatches (M)"), std::string::npos);
  EXPECT_NE(error_of("parallel: {schedule: llm-only}\n").find("llm-only leaves the encoder"),
            std::string::npos);
  EXPECT_NE(error_of("parallel: {pp: 3, schedule: disttrain}\n")
                .find("take nested, nested-fill, three-phase, optimus or megatron"),
            std::string::npos);
  EXPECT_NE(error_of("backbone: {heads: 3}\n").find("heads"), std::string::npos);
  EXPECT_NE(error_of("encoder: {picture: 30}\n").find("30"), std::string::npos);
  EXPECT_NE(error_of("dtype: float16\n").find("unknown dtype 'float16'"), std::string::npos);
  EXPECT_NE(error_of("device: gpu\n").find("device must be cpu"), std::string::npos);
  EXPECT_NE(error_of("steps: -1\n").find("steps must be at least 0"), std::string::npos);
}

TEST(Configuration, WithTooFewWarmupUnitsNamesTheLeast) {
  auto error = error_of("parallel: {pp: 4, vpp: 2, warmup_units: 2}\nbatch: {microbatches: 32}\n");
  EXPECT_NE(error.find("[nest] warm-up units (W) of 'image' must be at least 3 for P=4 V=2 M=32"),
            std::string::npos)
      << error;
}

TEST(Configuration, OfAMissingFileIsAnError) {
  EXPECT_THROW(read_config("/nowhere/run.yaml"), InvalidInput);
}

}  // namespace
}  // namespace bigmac::train
