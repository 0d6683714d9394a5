#include "bigmac/demo/config.h"

#include <gtest/gtest.h>

#include "bigmac/common/error.h"
#include "bigmac/demo/model.h"

namespace bigmac::demo {
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
  config.options.pp = 4;
  config.options.vpp = 2;
  config.options.dp = 2;
  config.options.microbatches = 16;
  config.options.optimizer.learning_rate = 1.0 / 3;
  config.options.schedule = Arrangement::three_phase;
  config.options.base = Base::zb_v;
  config.options.warmup_units = 5;
  config.options.generator_unit = 2;
  config.options.order = train::Order::balanced;
  config.options.ranks_as = train::RanksAs::processes;
  config.options.dtype = "float64";
  config.options.trained.freeze = {"vision.*"};
  config.options.shard["drawing"] = train::Sharding::states;
  config.options.recompute = {"vision"};
  config.audio = nn::AudioConfig{.mels = 40};
  config.backbone.moe = nn::MoeConfig{.experts = 6, .experts_per_token = 3};
  config.balance_weight = 0.25;
  config.batch.hear_share = 0.125;
  config.spoken_cache = "elsewhere";
  config.complete();
  auto again = parse_config(to_yaml(config), "again.yaml");
  EXPECT_EQ(to_yaml(again), to_yaml(config));
  EXPECT_EQ(again.options.optimizer, config.options.optimizer);
  EXPECT_EQ(again.options.schedule, Arrangement::three_phase);
  EXPECT_EQ(again.options.base, Base::zb_v);
  EXPECT_EQ(again.options.order, train::Order::balanced);
  EXPECT_EQ(again.options.ranks(), 8);
  EXPECT_EQ(again.options.trained.freeze, config.options.trained.freeze);
  EXPECT_EQ(again.options.shard.at("drawing"), train::Sharding::states);
  EXPECT_EQ(again.options.recompute, config.options.recompute);
  EXPECT_EQ(again.encoder.out, 64);
  ASSERT_TRUE(again.audio && again.backbone.moe);
  EXPECT_EQ(again.audio->mels, 40);
  EXPECT_EQ(again.audio->out, 64);
  EXPECT_EQ(again.backbone.moe->experts, 6);
  EXPECT_EQ(again.backbone.moe->experts_per_token, 3);
  EXPECT_EQ(again.balance_weight, 0.25);
  EXPECT_EQ(again.batch.hear_share, 0.125);
  EXPECT_EQ(again.spoken_cache, "elsewhere");
}

TEST(Configuration, KeepsDefaultsOfWhatIsLeftOut) {
  auto config = parse_config("backbone: {layers: 4}\n", "run.yaml");
  EXPECT_EQ(config.backbone.layers, 4);
  EXPECT_EQ(config.backbone.hidden, Config().backbone.hidden);
  EXPECT_EQ(config.options.microbatches, 8);
  EXPECT_EQ(config.options.optimizer.beta2, 0.95);
  EXPECT_FALSE(config.audio || config.backbone.moe);
  EXPECT_EQ(to_yaml(parse_config("", "empty.yaml")), to_yaml(parse_config("{}", "empty.yaml")));
}

TEST(Configuration, FilesOfTheProjectAreRead) {
  auto read = [](const std::string& name) {
    return read_config(std::string(BIGMAC_SOURCE_DIR) + "/configs/" + name);
  };
  auto emoji = read("emoji.yaml");
  EXPECT_EQ(emoji.options.pp, 4);
  EXPECT_EQ(emoji.options.vpp, 2);
  EXPECT_EQ(emoji.options.microbatches, 16);
  EXPECT_TRUE(read("spoken.yaml").audio);
  auto moe = read("moe.yaml");
  EXPECT_TRUE(moe.backbone.moe);
  EXPECT_EQ(moe.options.dp, 2);
}

TEST(Configuration, MakesEncodersAndLossesOfItsSections) {
  auto names = [](const std::string& yaml) { return make_system(parse_config(yaml, "run.yaml")).names(); };
  using Names = std::vector<std::string>;
  EXPECT_EQ(names(""), (Names{"vision", "drawing", "llm"}));
  EXPECT_EQ(names("audio:\n"), (Names{"vision", "audio", "drawing", "llm"}));
  auto losses = [](const std::string& yaml) {
    Names all;
    auto system = make_system(parse_config(yaml, "run.yaml"));
    for (const auto& loss : system.losses()) all.push_back(loss.name);
    return all;
  };
  EXPECT_EQ(losses("{}"), (Names{"text", "drawing"}));
  EXPECT_EQ(losses("backbone: {moe: {experts: 8}}"), (Names{"text", "balance", "router z", "drawing"}));
}

TEST(Configuration, NamesAnUnknownKeyWithItsPlaceAndTheNearestKnownOne) {
  EXPECT_EQ(
      error_of("backbone:\n  hiden: 64\n"),
      "run.yaml:2:3: unknown key of backbone 'hiden' (did you mean 'hidden'?); known: hidden, layers, heads, "
      "kv_heads, head_dim, ffn, rope_theta, tied_embeddings, moe");
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
      "1f1b, interleaved, zb-h1, zb-v, dualpipe-v");
  EXPECT_EQ(
      error_of("parallel: {order: balancd}\n"),
      "run.yaml:1:19: parallel.order: unknown order 'balancd' (did you mean 'balanced'?); known: as-is, "
      "balanced");
}

TEST(Configuration, TakesTheBaseFromTheChunksWhereNoneIsGiven) {
  auto base_of = [](const std::string& yaml) {
    auto config = parse_config(yaml, "run.yaml");
    return train::step_of(config.options, make_system(config)).base;
  };
  EXPECT_EQ(base_of("parallel: {vpp: 1}\n"), Base::one_f_one_b);
  EXPECT_EQ(base_of("parallel: {pp: 2, vpp: 2}\n"), Base::interleaved);
  EXPECT_EQ(base_of("parallel: {pp: 2, vpp: 2, base: dualpipe-v}\n"), Base::dualpipe_v);
}

TEST(Configuration, RefusesWhatDoesNotFitTogether) {
  EXPECT_NE(error_of("parallel: {pp: 4, vpp: 2, base: zb-h1}\n")
                .find("[zb-h1] holds one chunk a rank, got P=4 V=2 M=8; take V=1 or the base 'zb-v'"),
            std::string::npos);
  EXPECT_NE(error_of("parallel: {base: custom}\n").find("unknown base schedule 'custom'"), std::string::npos);
  EXPECT_NE(error_of("parallel: {pp: 2, generator_unit: 3}\n")
                .find("the generator's unit (k) must be from 1 to P microbatches, got 3"),
            std::string::npos);
  EXPECT_NE(error_of("parallel: {warmup_units: -1}\n").find("got -1"), std::string::npos);
  EXPECT_NE(error_of("parallel: {pp: 0}\n").find("[train] pp must be at least 1, got 0"), std::string::npos);
  EXPECT_NE(error_of("parallel: {vpp: -2}\n").find("[train] vpp must be at least 1, got -2"),
            std::string::npos);
  EXPECT_NE(error_of("parallel: {microbatches: 99999999999}\n").find("microbatches (M)"), std::string::npos);
  EXPECT_NE(error_of("parallel: {schedule: llm-only}\n").find("llm-only leaves encoders and generators out"),
            std::string::npos);
  EXPECT_NE(error_of("parallel: {pp: 3, schedule: disttrain}\n")
                .find("take nested, nested-fill, three-phase, optimus or megatron"),
            std::string::npos);
  EXPECT_NE(error_of("backbone: {heads: 3}\n").find("heads"), std::string::npos);
  EXPECT_NE(error_of("encoder: {picture: 30}\n").find("30"), std::string::npos);
  EXPECT_NE(error_of("audio: {heads: 5}\n").find("audio: hidden"), std::string::npos);
  EXPECT_NE(error_of("batch: {hear_share: 0.2}\n").find("there is nothing to hear"), std::string::npos);
  EXPECT_NE(error_of("batch: {samples: 0}\n").find("samples in a microbatch is 0"), std::string::npos);
  EXPECT_NE(error_of("batch: {microbatches: 4}\n").find("unknown key of batch 'microbatches'"),
            std::string::npos);
  EXPECT_NE(error_of("backbone: {moe: {experts: 2, experts_per_token: 3}}\n")
                .find("expected at most the 2 experts"),
            std::string::npos);
  EXPECT_NE(error_of("backbone: {moe: {z_weight: -1}}\n").find("z_weight must be at least 0"),
            std::string::npos);
  EXPECT_NE(error_of("modules: {visoin: {shard: states}}\n").find("did you mean 'vision'?"),
            std::string::npos);
  EXPECT_NE(error_of("checkpoints: {resume: true}\n").find("resume needs the folder"), std::string::npos);
  EXPECT_NE(error_of("dtype: float16\n").find("unknown dtype 'float16'"), std::string::npos);
  EXPECT_NE(error_of("device: gpu\n").find("device must be cpu"), std::string::npos);
  EXPECT_NE(error_of("steps: -1\n").find("steps must be at least 0"), std::string::npos);
}

TEST(Configuration, WithTooFewWarmupUnitsNamesTheLeast) {
  auto error = error_of("parallel: {pp: 4, vpp: 2, warmup_units: 2, microbatches: 32}\n");
  EXPECT_NE(error.find("[nest] warm-up units (W) of 'vision' must be at least 3 for P=4 V=2 M=32"),
            std::string::npos)
      << error;
}

TEST(Configuration, OfAMissingFileIsAnError) {
  EXPECT_THROW(read_config("/nowhere/run.yaml"), InvalidInput);
}

}  // namespace
}  // namespace bigmac::demo
