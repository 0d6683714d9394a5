#include "bigmac/workload/read_workload.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "bigmac/common/error.h"

namespace bigmac {
namespace {

constexpr double kGiB = 1024.0 * 1024 * 1024;

const std::string kLlm =
    "{architectures: [Qwen3ForCausalLM], hidden_size: 64, num_hidden_layers: 6, num_attention_heads: 4, "
    "num_key_value_heads: 2, head_dim: 16, intermediate_size: 128, vocab_size: 1000, tie_word_embeddings: "
    "false}";
const std::string kVit =
    "{architectures: [DotsVisionTransformer], embed_dim: 32, hidden_size: 64, num_hidden_layers: 2, "
    "num_attention_heads: 2, intermediate_size: 64, patch_size: 14}";
const std::string kMmdit =
    "{_class_name: QwenImageTransformer2DModel, num_layers: 2, num_attention_heads: 2, attention_head_dim: "
    "32, "
    "joint_attention_dim: 64}";

// A whole workload, line by line, so that a line can be replaced.
struct Lines {
  std::vector<std::string> lines{
      "tokens: 2K",                                     // 1
      "samples_per_gpu: [1, 2]",                        // 2
      "backbone:",                                      // 3
      "  model: " + kLlm,                               // 4
      "encoders:",                                      // 5
      "  - name: image",                                // 6
      "    model: " + kVit,                             // 7
      "    items: {mean: 2, tokens: 256, sigma: 0.5}",  // 8
      "generators:",                                    // 9
      "  - name: drawing",                              // 10
      "    model: " + kMmdit,                           // 11
      "    items: {tokens: 4K}",                        // 12
      "    text: 77",                                   // 13
      "cluster:",                                       // 14
      "  gpus: 16",                                     // 15
      "  hardware: H800",                               // 16
      "",                                               // 17
  };
  Lines with(size_t number, const std::string& line) const {
    auto changed = *this;
    changed.lines[number - 1] = line;
    return changed;
  }
  std::string text() const {
    std::string all;
    for (const auto& line : lines) all += line + "\n";
    return all;
  }
};

Workload parsed(const Lines& lines) {
  return parse_workload(lines.text(), "w.yaml");
}

std::string error_of(const std::string& yaml) {
  try {
    parse_workload(yaml, "w.yaml");
  } catch (const InvalidInput& error) {
    return error.what();
  }
  return "no error";
}

// The error with a line replaced.
std::string with(size_t number, const std::string& line) {
  return error_of(Lines().with(number, line).text());
}

TEST(ReadWorkload, KeepsDefaultsOfWhatIsLeftOut) {
  auto w = parsed({});
  EXPECT_EQ(w.name, "w");
  EXPECT_EQ(w.tokens, 2048);
  EXPECT_EQ(w.samples_per_gpu, (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(w.backbone.name, "backbone");
  EXPECT_EQ(w.backbone.kind, Module::backbone);
  EXPECT_EQ(w.backbone.efficiency, cost::Efficiency{});
  EXPECT_EQ(w.backbone.model.layers.size(), 8u);
  EXPECT_FALSE(w.backbone.frozen);
  EXPECT_TRUE(w.backbone.recompute.empty());
  ASSERT_EQ(w.modules.size(), 2u);
  EXPECT_EQ(w.modules[0].name, "image");
  EXPECT_EQ(w.modules[0].kind, Module::encoder);
  EXPECT_EQ(w.modules[0].items, (ItemDistribution{.mean = 2, .tokens = 256, .sigma = 0.5}));
  EXPECT_EQ(w.modules[0].shard, 1);
  EXPECT_EQ(w.modules[1].kind, Module::generator);
  EXPECT_EQ(w.modules[1].text, 77);
  EXPECT_EQ(w.gpus, 16);
  EXPECT_EQ(w.memory, w.hardware.memory);
  EXPECT_EQ(w.reserved, 0);
  EXPECT_EQ(w.exchange, Exchange::overlapped);
  EXPECT_EQ(w.overlap, 0);
  EXPECT_TRUE(w.shard_optimizer);
  EXPECT_EQ(w.seed, 1u);
  EXPECT_EQ(w.search, Search{});
}

TEST(ReadWorkload, ReadsEveryField) {
  auto w = parse_workload(
      "name: all\ntokens: 4096\nsamples_per_gpu: [8, 1]\nseed: 9\nshard_optimizer: false\n"
      "precision: {parameter: 4, gradient: 2, optimizer: 8}\n"
      "backbone:\n  name: llm\n  model: " +
          kLlm +
          "\n  efficiency: {linear: 0.5, experts: 0.3, attention: 0.4, memory: 0.6, links: 0.9}\n"
          "  frozen: true\n  recompute: [none, full]\n  expert_imbalance: 1.25\n"
          "encoders:\n  - {name: image, model: " +
          kVit +
          ", frozen: false, recompute: selective, shard: 4,\n"
          "     items: {mean: 2.5, fixed: false, empty: 0.25, tokens: 1K, sigma: 1, least: 16, most: 2K}}\n"
          "cluster:\n  gpus: 32\n  hardware:\n    name: mine\n    peak: 100TFLOP/s\n    memory: 24GiB\n"
          "    memory_bandwidth: 1TB/s\n    inside: {latency: 5us, bandwidth: 32GB/s}\n"
          "    between: {latency: 20us, bandwidth: 100Gb/s}\n    gpus_per_node: 4\n"
          "  memory: 20GiB\n  reserved: 512MiB\n  exchange: in-order\n  overlap: 0.5\n"
          "search:\n  tensor: [1, 2]\n  pipeline: [2, 4]\n  chunks: [1, 2]\n  expert: 1\n  microbatch: [1, "
          "2, 4]\n"
          "  arrangements: [nested, nested-fill]\n  bases: [1f1b, interleaved]\n  warmup_units: [3, 4]\n"
          "  splits: [[3, 3], [[1, 1], [2, 2]], Et|(tt|)*2tL]\n",
      "some/folder/w.yaml");
  EXPECT_EQ(w.name, "all");
  EXPECT_EQ(w.seed, 9u);
  EXPECT_FALSE(w.shard_optimizer);
  EXPECT_EQ(w.precision.parameter, 4);
  EXPECT_EQ(w.precision.gradient, 2);
  EXPECT_EQ(w.precision.optimizer, 8);
  EXPECT_EQ(w.backbone.name, "llm");
  EXPECT_EQ(w.backbone.efficiency, (cost::Efficiency{0.5, 0.3, 0.4, 0.6, 0.9}));
  EXPECT_TRUE(w.backbone.frozen);
  EXPECT_EQ(w.backbone.recompute, (std::vector{cost::Recompute::none, cost::Recompute::full}));
  EXPECT_EQ(w.backbone.expert_imbalance, 1.25);
  const auto& image = w.modules.at(0);
  EXPECT_EQ(image.recompute, std::vector{cost::Recompute::selective});
  EXPECT_EQ(image.shard, 4);
  EXPECT_EQ(image.items, (ItemDistribution{2.5, false, 0.25, 1024, 1, 16, 2048}));
  EXPECT_EQ(w.hardware, (cost::Hardware{"mine", 100e12, 24 * kGiB, 1e12, {5e-6, 32e9}, {20e-6, 12.5e9}, 4}));
  EXPECT_EQ(w.memory, 20 * kGiB);
  EXPECT_EQ(w.reserved, kGiB / 2);
  EXPECT_EQ(w.exchange, Exchange::in_order);
  EXPECT_EQ(w.overlap, 0.5);
  EXPECT_EQ(w.samples_per_gpu, (std::vector<int64_t>{8, 1}));
  Search expected{.tensor = {1, 2},
                  .pipeline = {2, 4},
                  .chunks = {1, 2},
                  .expert = {1},
                  .microbatch = {1, 2, 4},
                  .arrangements = {Arrangement::nested, Arrangement::nested_fill},
                  .bases = {Base::one_f_one_b, Base::interleaved},
                  .warmup_units = {3, 4},
                  .splits = {{4, 4}, {2, 1, 2, 3}, {2, 2, 2, 2}}};
  EXPECT_EQ(w.search, expected);
}

TEST(ReadWorkload, ChangesFiguresOfAPreset) {
  auto w = parsed(
      Lines().with(16, "  hardware: {preset: H800, between: {bandwidth: 200Gb/s}, gpus_per_node: 16}"));
  auto h800 = cost::hardware_from_name("H800");
  EXPECT_EQ(w.hardware.between.bandwidth, 25e9);
  EXPECT_EQ(w.hardware.between.latency, h800.between.latency);
  EXPECT_EQ(w.hardware.peak, h800.peak);
  EXPECT_EQ(w.hardware.gpus_per_node, 16);
}

TEST(ReadWorkload, FindsModelsBesideTheWorkload) {
  auto folder = std::filesystem::temp_directory_path() / concat("bigmac-workload-", getpid());
  std::filesystem::create_directories(folder / "models");
  std::ofstream(folder / "models" / "llm.yaml") << kLlm.substr(1, kLlm.size() - 2).insert(0, "#\n{") + "}";
  std::ofstream(folder / "w.yaml") << Lines().with(4, "  model: models/llm.yaml").text();
  auto w = read_workload((folder / "w.yaml").string());
  EXPECT_EQ(w.backbone.model.layers.size(), 8u);
  std::filesystem::remove_all(folder);
}

TEST(ReadWorkload, NamesTheNearestKnownKeyWithItsPlace) {
  EXPECT_NE(with(1, "token: 2K").find("w.yaml:1:1: unknown key 'token' (did you mean 'tokens'?); known: "),
            std::string::npos);
  EXPECT_NE(with(4, "  modle: x").find("w.yaml:4:3: unknown key of backbone 'modle' (did you mean 'model'?)"),
            std::string::npos);
  EXPECT_NE(
      with(13, "    txt: 77").find("w.yaml:13:5: unknown key of generators[0] 'txt' (did you mean 'text'?)"),
      std::string::npos);
  EXPECT_NE(
      with(8, "    items: {tokens: 9, sgma: 1}").find("w.yaml:8:24: unknown key of encoders[0].items 'sgma'"),
      std::string::npos);
  EXPECT_NE(with(15, "  gpu: 16").find("w.yaml:15:3: unknown key of cluster 'gpu' (did you mean 'gpus'?)"),
            std::string::npos);
  EXPECT_NE(with(16, "  hardware: {preset: H800, peek: 1}").find("unknown key of cluster.hardware 'peek'"),
            std::string::npos);
  EXPECT_NE(with(17, "search: {tensors: 2}").find("w.yaml:17:10: unknown key of search 'tensors'"),
            std::string::npos);
  // Only a generator has a second stream.
  EXPECT_NE(with(8, "    items: {tokens: 9}\n    text: 3").find("unknown key of encoders[0] 'text'"),
            std::string::npos);
  EXPECT_NE(with(4, "  model: " + kLlm + "\n  shard: 8").find("unknown key of backbone 'shard'"),
            std::string::npos);
}

TEST(ReadWorkload, NamesKeysThatAreMissing) {
  EXPECT_EQ(with(1, ""), "w.yaml:2:1: the file needs the key 'tokens'");
  EXPECT_EQ(with(2, ""), "w.yaml:1:1: the file needs the key 'samples_per_gpu'");
  EXPECT_EQ(with(4, "  frozen: false"), "w.yaml:4:3: backbone needs the key 'model'");
  EXPECT_EQ(with(6, "  - frozen: false"), "w.yaml:6:5: encoders[0] needs the key 'name'");
  EXPECT_EQ(with(8, ""), "w.yaml:6:5: encoders[0] needs the key 'items'");
  EXPECT_EQ(with(8, "    items: {mean: 2}"), "w.yaml:8:12: encoders[0].items needs the key 'tokens'");
  EXPECT_EQ(with(13, ""), "w.yaml:10:5: generators[0] needs the key 'text'");
  EXPECT_EQ(with(15, ""), "w.yaml:16:3: cluster needs the key 'gpus'");
  EXPECT_EQ(with(16, ""), "w.yaml:15:3: cluster needs the key 'hardware'");
  EXPECT_EQ(with(16,
                 "  hardware: {name: x, peak: 1, memory: 1, memory_bandwidth: 1, inside: {latency: 1, "
                 "bandwidth: 1}}"),
            "w.yaml:16:13: cluster.hardware needs the key 'between'");
  EXPECT_NE(with(16, "  hardware: {name: x, inside: {bandwidth: 1}}")
                .find("cluster.hardware.inside needs the key 'latency'"),
            std::string::npos);
  EXPECT_EQ(error_of(""), "w.yaml: the file needs the key 'tokens'");
}

TEST(ReadWorkload, RefusesSizesThatAreZeroNegativeOrNoNumbers) {
  EXPECT_EQ(with(1, "tokens: 0"), "w.yaml:1:9: tokens must be from 1 to 1000000000, got 0");
  EXPECT_EQ(with(1, "tokens: -5"),
            "w.yaml:1:9: tokens: must be a whole number such as 8192, 8K or 1M, got '-5'");
  EXPECT_NE(with(1, "tokens: 8k").find("got '8k'"), std::string::npos);
  EXPECT_EQ(with(2, "samples_per_gpu: []"),
            "w.yaml:2:18: samples_per_gpu must name at least one value, got an empty list");
  EXPECT_EQ(with(2, "samples_per_gpu: [1, 0]"), "w.yaml:2:22: samples_per_gpu: must be from 1 to 1M, got 0");
  EXPECT_EQ(with(2, "samples_per_gpu: [1, 1]"), "w.yaml:2:22: samples_per_gpu has '1' twice");
  EXPECT_EQ(with(15, "  gpus: 0"), "w.yaml:15:9: cluster.gpus must be from 1 to 1048576, got 0");
  EXPECT_NE(with(17, "  memory: 0").find("w.yaml:17:11: cluster.memory must be above 0, got 0"),
            std::string::npos);
  EXPECT_NE(with(17, "  memory: -80GiB").find("cluster.memory: must be bytes such as"), std::string::npos);
  EXPECT_NE(with(17, "  memory: 80Gig").find("got '80Gig'"), std::string::npos);
  EXPECT_NE(with(17, "  reserved: 90GiB").find("cluster.reserved must be below the memory of "),
            std::string::npos);
  EXPECT_NE(with(17, "  overlap: 1.5").find("cluster.overlap must be from 0 to 1, got 1.5"),
            std::string::npos);
  EXPECT_NE(with(17, "  overlap: .nan").find("cluster.overlap must be from 0 to 1"), std::string::npos);
  EXPECT_NE(
      with(17, "precision: {gradient: 0}").find("precision.gradient must be above 0 and at most 64, got 0"),
      std::string::npos);
  EXPECT_NE(with(17, "seed: -1").find("seed must be a whole number of at least 0, got '-1'"),
            std::string::npos);
  EXPECT_NE(with(16, "  hardware: {preset: H800, peak: 0}").find("cluster.hardware.peak must be above 0"),
            std::string::npos);
  EXPECT_NE(with(16, "  hardware: {preset: H800, gpus_per_node: 0}").find("gpus_per_node must be from 1"),
            std::string::npos);
  EXPECT_NE(
      with(16, "  hardware: {preset: H800, inside: {bandwidth: 0}}").find("inside.bandwidth must be above 0"),
      std::string::npos);
}

TEST(ReadWorkload, RefusesItemsThatCannotBe) {
  auto items = [](const std::string& text) { return with(8, "    items: " + text); };
  EXPECT_NE(items("{tokens: 0}").find("w.yaml:8:21: encoders[0].items.tokens must be from 1"),
            std::string::npos);
  EXPECT_NE(items("{mean: 0, tokens: 9}").find("encoders[0].items.mean must be from 1 to 4096"),
            std::string::npos);
  EXPECT_NE(items("{mean: 2.5, tokens: 9}").find("encoders[0].items.mean must be whole"), std::string::npos);
  EXPECT_EQ(items("{mean: 2.5, fixed: false, tokens: 9}"), "no error");
  EXPECT_NE(items("{mean: .nan, tokens: 9}").find("items.mean must be from 1"), std::string::npos);
  EXPECT_NE(items("{empty: 1, tokens: 9}").find("items.empty must be at least 0 and below 1, got 1"),
            std::string::npos);
  EXPECT_NE(items("{empty: -0.1, tokens: 9}").find("items.empty must be"), std::string::npos);
  EXPECT_NE(items("{sigma: -1, tokens: 9}").find("items.sigma must be from 0 to 4, got -1"),
            std::string::npos);
  EXPECT_NE(items("{sigma: .inf, tokens: 9}").find("items.sigma must be"), std::string::npos);
  EXPECT_NE(items("{tokens: 9, least: 10}").find("items.least must be at most the mean of 9, got 10"),
            std::string::npos);
  EXPECT_NE(items("{tokens: 9, most: 8}").find("items.most must be at least the mean of 9, got 8"),
            std::string::npos);
  EXPECT_NE(items("{tokens: 9, fixed: perhaps}").find("items.fixed must be true or false, got 'perhaps'"),
            std::string::npos);
  EXPECT_NE(items("3").find("encoders[0].items must be a mapping"), std::string::npos);
  // 2048 tokens a sample; 4 patches become one.
  EXPECT_EQ(items("{mean: 8, tokens: 1K}"), "no error");
  EXPECT_EQ(items("{mean: 9, tokens: 1K}"),
            "w.yaml:8:12: encoders[0].items: 9 items of 1024 tokens give the LLM 2304 tokens a sample (4 "
            "become one), "
            "which has only 2048");
  EXPECT_EQ(items("{mean: 9, tokens: 1K, empty: 0.5}"), "no error");
}

TEST(ReadWorkload, RefusesModulesThatCannotBe) {
  EXPECT_EQ(with(10, "  - name: image"),
            "w.yaml:10:11: generators[0].name: another module is named 'image' too; names must differ");
  EXPECT_NE(with(6, "  - name: backbone").find("another module is named 'backbone' too"), std::string::npos);
  EXPECT_NE(with(6, "  - name: ''").find("encoders[0].name must not be empty"), std::string::npos);
  EXPECT_EQ(with(8, "    items: {tokens: 9}\n    shard: 5"),
            "w.yaml:9:12: encoders[0].shard must divide the 16 GPUs, got 5");
  EXPECT_NE(with(8, "    items: {tokens: 9}\n    shard: 0").find("shard must be at least 1, got 0"),
            std::string::npos);
  EXPECT_NE(with(8, "    items: {tokens: 9}\n    frozen: maybe")
                .find("encoders[0].frozen must be true or false, got 'maybe'"),
            std::string::npos);
  EXPECT_NE(with(8, "    items: {tokens: 9}\n    recompute: [none, ful]")
                .find("w.yaml:9:23: encoders[0].recompute: unknown recompute"),
            std::string::npos);
  EXPECT_NE(with(8, "    items: {tokens: 9}\n    recompute: [full, full]").find("has 'full' twice"),
            std::string::npos);
  EXPECT_NE(with(8, "    items: {tokens: 9}\n    expert_imbalance: 0.9")
                .find("expert_imbalance must be at least 1"),
            std::string::npos);
  EXPECT_NE(with(8, "    items: {tokens: 9}\n    efficiency: {linear: 0}")
                .find("encoders[0].efficiency.linear must be above 0 and at most 1, got 0"),
            std::string::npos);
  EXPECT_NE(with(8, "    items: {tokens: 9}\n    efficiency: {links: 1.01}")
                .find("efficiency.links must be above 0"),
            std::string::npos);
  EXPECT_NE(with(13, "    text: 0").find("generators[0].text must be from 1"), std::string::npos);
  auto frozen = Lines()
                    .with(4, "  model: " + kLlm + "\n  frozen: true")
                    .with(8, "    items: {tokens: 9}\n    frozen: true");
  EXPECT_EQ(error_of(frozen.text()), "no error");
  EXPECT_NE(error_of(frozen.with(13, "    text: 7\n    frozen: true").text()).find("every module is frozen"),
            std::string::npos);
}

TEST(ReadWorkload, RefusesModelsOfTheWrongKindAndThoseItCannotRead) {
  EXPECT_NE(with(4, "  model: " + kVit)
                .find("w.yaml:4:10: backbone.model is a vision encoder; right would be an LLM"),
            std::string::npos);
  EXPECT_NE(with(7, "    model: " + kLlm)
                .find("encoders[0].model is an LLM; right would be a vision or audio encoder"),
            std::string::npos);
  EXPECT_NE(with(11, "    model: " + kVit)
                .find("generators[0].model is a vision encoder; right would be a diffusion model"),
            std::string::npos);
  EXPECT_NE(with(4, "  model: nowhere.json").find("w.yaml:4:10: [model] cannot read "), std::string::npos);
  EXPECT_NE(with(4, "  model: [1]").find("backbone.model must be a path or a mapping"), std::string::npos);
  EXPECT_NE(with(4, "  model: {}").find("w.yaml:4:10: [model] backbone.model"), std::string::npos);
  EXPECT_NE(with(4, "  model: {architectures: [Qwen3ForCausalLm]}").find("Qwen3ForCausalLM"),
            std::string::npos);
  auto without = kLlm;
  without.replace(without.find("hidden_size: 64"), 15, "hidden_size: -1");
  EXPECT_NE(with(4, "  model: " + without).find("w.yaml:4:10: [model] backbone.model: hidden_size"),
            std::string::npos);
  EXPECT_NE(with(4, "  model: " + kLlm + "\n  part: txt").find("backbone.part: unknown"), std::string::npos);
  EXPECT_NE(with(4, "  model: " + kLlm + "\n  part: vision").find("w.yaml:4:10: [model] "),
            std::string::npos);
}

TEST(ReadWorkload, RefusesClustersThatCannotBe) {
  EXPECT_NE(with(16, "  hardware: H80")
                .find("w.yaml:16:13: cluster.hardware: unknown hardware 'H80' (did you mean 'H800'?)"),
            std::string::npos);
  EXPECT_NE(with(16, "  hardware: {preset: B900}").find("cluster.hardware.preset: unknown hardware 'B900'"),
            std::string::npos);
  EXPECT_EQ(with(15, "  gpus: 12"),
            "w.yaml:15:9: cluster.gpus must be whole nodes of 8 GPUs (8 or 16), got 12");
  EXPECT_EQ(with(15, "  gpus: 4"), "no error");
  EXPECT_EQ(with(15, "  gpus: 3"), "no error");
  EXPECT_NE(with(17, "  exchange: in_order")
                .find("cluster.exchange: unknown exchange 'in_order' (did you mean 'in-order'?)"),
            std::string::npos);
  EXPECT_EQ(error_of(Lines().with(14, "cluster: 7").with(15, "").with(16, "").text()),
            "w.yaml:14:10: cluster must be a mapping");
}

TEST(ReadWorkload, RefusesSearchesThatCannotBe) {
  auto search = [](const std::string& text) { return with(17, "search: " + text); };
  EXPECT_EQ(search("{tensor: [1, 32]}"), "w.yaml:17:22: search.tensor: must be from 1 to 16, got 32");
  EXPECT_NE(search("{pipeline: 0}").find("search.pipeline: must be from 1 to 16, got 0"), std::string::npos);
  EXPECT_NE(search("{chunks: 9}").find("search.chunks: must be from 1 to 8, got 9"), std::string::npos);
  EXPECT_NE(search("{expert: [2, 2]}").find("search.expert has '2' twice"), std::string::npos);
  EXPECT_NE(search("{microbatch: []}").find("search.microbatch must name at least one value"),
            std::string::npos);
  EXPECT_NE(search("{arrangements: [nestd]}")
                .find("search.arrangements: unknown schedule 'nestd' (did you mean 'nested'?)"),
            std::string::npos);
  EXPECT_NE(search("{bases: [1f1c]}").find("search.bases: unknown base schedule '1f1c'"), std::string::npos);
  EXPECT_NE(search("{bases: custom}").find("unknown base schedule 'custom'; known: gpipe, 1f1b"),
            std::string::npos);
  EXPECT_NE(search("{warmup_units: 0}").find("search.warmup_units: must be from 1"), std::string::npos);
}

TEST(ReadWorkload, RefusesSplitsThatDoNotAddUp) {
  auto splits = [](const std::string& text, const std::string& more = "") {
    return with(17, "search: {" + more + "splits: " + text + "}");
  };
  EXPECT_EQ(splits("[[2, 4]]"), "no error");
  EXPECT_EQ(splits("[[2, 4], [3, 4]]"),
            "w.yaml:17:27: search.splits: [split] holds 7 layers, the model has 6");
  EXPECT_NE(splits("[Et*5|tt|L]").find("search.splits: [layout] holds 7 layers, the model has 6"),
            std::string::npos);
  EXPECT_NE(splits("[Et*5|x]").find("search.splits: [layout] position 6 ('x')"), std::string::npos);
  EXPECT_NE(splits("[[2, x]]").find("search.splits: [split] position 4 ('x')"), std::string::npos);
  EXPECT_NE(splits("[[[1, 2], [3]]]").find("search.splits: [split]"), std::string::npos);
  EXPECT_NE(splits("[{a: 1}]").find("search.splits: must be a list of layers by stage, or a layout"),
            std::string::npos);
  EXPECT_NE(splits("[]").find("search.splits must name at least one value"), std::string::npos);
  EXPECT_EQ(splits("[[3, 3]]", "pipeline: [4], "),
            "w.yaml:17:34: search.splits: has 2 stages, which no pipeline and chunks of the search give");
  EXPECT_EQ(splits("[[3, 3]]", "pipeline: [2], chunks: [1], "), "no error");
  EXPECT_NE(splits("[[3, 3]]", "pipeline: [2], chunks: [2], "), "no error");
  EXPECT_EQ(splits("[[2, 1, 2, 1]]", "pipeline: [2], "), "no error");
}

TEST(ReadWorkload, RefusesFilesItCannotRead) {
  EXPECT_THROW(read_workload("/nowhere/w.yaml"), InvalidInput);
  EXPECT_THROW(read_workload("/"), InvalidInput);
  auto path = std::filesystem::temp_directory_path() / concat("bigmac-workload-", getpid(), ".yaml");
  std::ofstream(path) << std::string(kMostWorkloadBytes + 1, ' ');
  try {
    read_workload(path.string());
    ADD_FAILURE() << "read";
  } catch (const InvalidInput& error) {
    EXPECT_NE(std::string(error.what()).find("has more than 1048576 bytes"), std::string::npos);
  }
  std::filesystem::remove(path);
  EXPECT_EQ(error_of("tokens: [1, 2\n").substr(0, 9), "w.yaml:2:");
  EXPECT_EQ(error_of("- tokens\n"), "w.yaml:1:1: the file must be a mapping");
}

// Whatever is cut off or garbled is an error with a place, or still a workload, and never anything else.
TEST(ReadWorkload, SurvivesTruncatedAndGarbledText) {
  auto text = Lines().text();
  for (size_t length = 0; length < text.size(); length += 3) {
    auto error = error_of(text.substr(0, length));
    EXPECT_TRUE(error == "no error" || error.rfind("w.yaml:", 0) == 0) << error;
  }
  for (size_t at = 0; at < text.size(); at += 5)
    for (char byte : {'\0', ':', '[', '-', '\xff', '&', '"'}) {
      auto garbled = text;
      garbled[at] = byte;
      auto error = error_of(garbled);
      EXPECT_TRUE(error == "no error" || error.rfind("w.yaml:", 0) == 0) << error;
    }
}

}  // namespace
}  // namespace bigmac
