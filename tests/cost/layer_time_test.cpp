#include "bigmac/cost/layer_time.h"

#include <limits>
#include <random>

#include "tests/cost/layers.h"

namespace bigmac {
namespace {

using namespace cost;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// 1e15 FLOP/s, 1e12 bytes/s; inside 1 us and 100 GB/s, between 10 us and 20 GB/s, 8 GPUs a node.
const Hardware kRound = round_hardware();

LayerTime time_of(const Layer& layer, const Sequences& sequences, const Parallel& parallel = {},
                  const Training& training = {}) {
  return layer_time(layer, sequences, parallel, training, kRound, whole());
}

LayerTime time_of(const Part& only, double rows, const Parallel& parallel = {},
                  const Training& training = {}) {
  return time_of(Layer{"layer", {only}}, {.tokens = rows}, parallel, training);
}

// Where all that computes takes its FLOPs.
LayerTime flops_time(const Part& only, double rows, const Parallel& parallel = {},
                     const Training& training = {}) {
  auto fast_memory = kRound;
  fast_memory.memory_bandwidth = 1e30;
  return layer_time({"layer", {only}}, {.tokens = rows}, parallel, training, fast_memory, whole());
}

double compute(const LayerTime& time) {
  return time.forward + time.backward() - time.links;
}

void expect_near(const LayerTime& time, const LayerTime& expected) {
  EXPECT_NEAR(time.forward, expected.forward, 1e-9 * expected.forward);
  EXPECT_NEAR(time.input, expected.input, 1e-9 * expected.input);
  EXPECT_NEAR(time.weight, expected.weight, 1e-9 * expected.weight);
  EXPECT_NEAR(time.again, expected.again, 1e-9 * expected.again);
  EXPECT_NEAR(time.links, expected.links, 1e-9 * expected.links);
}

TEST(LayerTime, OfALargeProductIsItsFlops) {
  double seconds = 2.0 * 8192 * 4096 * 4096 / 1e15;
  expect_near(time_of(linear_part(4096, 4096), 8192), {seconds, seconds, seconds, 0, 0});
}

TEST(LayerTime, OfAThinProductIsItsWeightsInputsAndOutputs) {
  double seconds = 2.0 * (4096 * 8192 + 16 * (4096 + 8192)) / 1e12;
  expect_near(time_of(linear_part(4096, 8192), 16), {seconds, seconds, seconds, 0, 0});
}

TEST(LayerTime, OfWhatOnlyMovesBytesIsItsInputsAndOutputs) {
  double row = 2.0 * 4096 / 1e12;
  for (auto kind : {PartKind::norm, PartKind::elementwise})
    expect_near(time_of(part(kind, 4096, 4096), 1000), {2000 * row, 3000 * row, 0, 0, 0});
  expect_near(time_of(part(PartKind::elementwise, 8192, 4096), 1000), {3000 * row, 5000 * row, 0, 0, 0});
}

TEST(LayerTime, OfAnEmbeddingIsTheRowsLookedUp) {
  double seconds = 1000 * 2 * 2 * 4096 / 1e12;
  expect_near(time_of(part(PartKind::embedding, 150000, 4096), 1000), {seconds, 0, seconds, 0, 0});
}

TEST(LayerTime, OfAttentionIsItsFlopsOrItsRows) {
  auto core = attention_part(32, 4, 128);
  double long_flops = 4.0 * 4096 * 8192 * 8192 / 1e15;
  expect_near(time_of(core, 8192), {long_flops, 2.5 * long_flops, 0, 0, 0});
  core.causal = true;
  expect_near(time_of(core, 8192), {long_flops * 8193 / 16384, 2.5 * long_flops * 8193 / 16384, 0, 0, 0});
  double bytes = 2.0 * 8 * (2 * 4096 + 2 * 512) / 1e12;
  expect_near(time_of(core, 8), {bytes, 2 * bytes, 0, 0, 0});
}

TEST(LayerTime, OfDataHasNoInputGradient) {
  auto patches = linear_part(4096, 4096);
  patches.of_data = true;
  double seconds = 2.0 * 8192 * 4096 * 4096 / 1e15;
  expect_near(time_of(patches, 8192), {seconds, 0, seconds, 0, 0});
}

TEST(LayerTime, EachKindHasItsEfficiency) {
  Efficiency efficiency{.linear = 0.5, .experts = 0.25, .attention = 0.2, .memory = 0.1, .links = 1};
  auto slowdown = [&](const Part& only, double memory_bandwidth) {
    Layer layer{"layer", {only}};
    auto gpu = kRound;
    gpu.memory_bandwidth = memory_bandwidth;
    return layer_time(layer, {.tokens = 4096}, {}, {}, gpu, efficiency).forward /
           layer_time(layer, {.tokens = 4096}, {}, {}, gpu, whole()).forward;
  };
  EXPECT_DOUBLE_EQ(slowdown(linear_part(8192, 8192), 1e30), 2);
  EXPECT_DOUBLE_EQ(slowdown(expert_part(8192, 8192, 4, 2), 1e30), 4);
  EXPECT_DOUBLE_EQ(slowdown(attention_part(32, 4, 128), 1e30), 5);
  for (const auto& only : {linear_part(8192, 8192), expert_part(8192, 8192, 4, 2), attention_part(32, 4, 128),
                           part(PartKind::norm, 4096, 4096)})
    EXPECT_DOUBLE_EQ(slowdown(only, 1e6), 10);
}

// Narayanan et al. 2021: 24 b s h^2 (1 + s / 6h) a layer, and twice that for the gradients but for the scores
// that attention computes again.
TEST(LayerTime, OfAGptLayerIsThePublishedFlops) {
  auto fast_memory = kRound;
  fast_memory.memory_bandwidth = 1e30;
  for (auto [h, a, s] : {std::tuple{12288.0, 96, 2048.0}, {20480.0, 128, 2048.0}, {25600.0, 160, 4096.0}}) {
    Sequences sequences{.count = 2, .tokens = s};
    auto time = layer_time(gpt(int64_t(h), a), sequences, {}, {}, fast_memory, whole());
    double linear = 24 * 2 * s * h * h / 1e15, attention = 4 * 2 * s * s * h / 1e15;
    EXPECT_NEAR(time.forward, linear + attention, 1e-9 * linear);
    EXPECT_NEAR(linear + attention, linear * (1 + s / (6 * h)), 1e-9 * linear);
    EXPECT_NEAR(time.input, linear + 2.5 * attention, 1e-9 * linear);
    EXPECT_NEAR(time.weight, linear, 1e-9 * linear);
    auto full =
        layer_time(gpt(int64_t(h), a), sequences, {}, {.recompute = Recompute::full}, fast_memory, whole());
    EXPECT_NEAR(full.again, time.forward, 1e-9 * linear);
    auto selective = layer_time(gpt(int64_t(h), a), sequences, {}, {.recompute = Recompute::selective},
                                fast_memory, whole());
    EXPECT_NEAR(selective.again, attention, 1e-9 * linear);
  }
}

TEST(LayerTime, ExpertsReadTheWeightsTheGpuHolds) {
  double expert = 2048 * 768;
  auto product = expert_part(2048, 768, 128, 8);
  // 4 rows: 32 copies, and all experts that are here.
  double alone = 2 * (128 * expert + 32 * (2048 + 768)) / 1e12;
  EXPECT_NEAR(time_of(product, 4).forward, alone, 1e-9 * alone);
  double eighth = 2 * (16 * expert + 32 * (2048 + 768)) / 1e12;
  auto parallel = time_of(product, 4, {.data = 8, .expert = 8});
  EXPECT_NEAR(parallel.forward - parallel.links / 2, eighth, 1e-9 * eighth);
}

TEST(LayerTime, ExpertsRunOnTopKRowsTimesTheImbalance) {
  double seconds = 2.0 * 2048 * 768 * 8 * 1e6 / 1e15;
  auto product = expert_part(2048, 768, 128, 8);
  expect_near(flops_time(product, 1e6), {seconds, seconds, seconds, 0, 0});
  double busy = 1.5 * seconds;
  expect_near(flops_time(product, 1e6, {}, {.expert_imbalance = 1.5}), {busy, busy, busy, 0, 0});
  double half = seconds / 2;
  expect_near(flops_time(product, 1e6, {.tensor = 2}), {half, half, half, 0, 0});
}

TEST(LayerTime, TensorParallelismDividesWhatIsCut) {
  double whole_flops = 2.0 * 1e5 * 4096 * 4096 / 1e15;
  for (auto cut : {Cut::columns, Cut::rows, Cut::vocabulary}) {
    auto time = flops_time(linear_part(4096, 4096, cut), 1e5, {.tensor = 4});
    EXPECT_NEAR(compute(time), 3 * whole_flops / 4, 1e-9 * whole_flops);
  }
  auto uncut = linear_part(4096, 4096);
  EXPECT_NEAR(flops_time(uncut, 1e5, {.tensor = 4}).forward, whole_flops / 4, 1e-9 * whole_flops);
  EXPECT_NEAR(flops_time(uncut, 1e5, {.tensor = 4, .sequence_parallel = false}).forward, whole_flops,
              1e-9 * whole_flops);
}

TEST(LayerTime, FrozenHasNoWeightPart) {
  Parallel parallel{.tensor = 2};
  auto trained = time_of(gpt(1024, 16), {.tokens = 4096}, parallel);
  auto frozen = time_of(gpt(1024, 16), {.tokens = 4096}, parallel, {.frozen = true});
  expect_near(frozen, {trained.forward, trained.input, 0, 0, trained.links});
  EXPECT_GT(trained.weight, 0);
}

TEST(LayerTime, FrozenWithoutAnythingTrainedBeforeHasNoBackward) {
  Parallel parallel{.tensor = 2};
  auto trained = time_of(gpt(1024, 16), {.tokens = 4096}, parallel);
  for (auto recompute : {Recompute::none, Recompute::selective, Recompute::full}) {
    auto frozen = time_of(gpt(1024, 16), {.tokens = 4096}, parallel,
                          {.recompute = recompute, .frozen = true, .passes_gradient = false});
    expect_near(frozen, {trained.forward, 0, 0, 0, trained.links / 2});
  }
}

TEST(LayerTime, FullRecomputeAddsTheForwardAndItsTraffic) {
  Parallel parallel{.tensor = 2, .data = 4, .expert = 8};
  auto none = time_of(qwen3_moe(), {.tokens = 4096}, parallel);
  auto full = time_of(qwen3_moe(), {.tokens = 4096}, parallel, {.recompute = Recompute::full});
  expect_near(full, {none.forward, none.input + none.forward, none.weight, none.forward, 1.5 * none.links});
}

TEST(LayerTime, SelectiveRecomputeAddsThePartsThatKeepNothing) {
  auto layer = gpt(1024, 16);
  auto none = time_of(layer, {.tokens = 4096});
  double core = time_of(Layer{"core", {layer.parts[2]}}, {.tokens = 4096}).forward;
  auto selective = time_of(layer, {.tokens = 4096}, {}, {.recompute = Recompute::selective});
  expect_near(selective, {none.forward, none.input + core, none.weight, core, 0});
}

TEST(LayerTime, SelectiveRecomputeOfFrozenLayersLeavesOutWhatOnlyWeightsNeed) {
  auto activation = part(PartKind::elementwise, 4096, 4096, Cut::none, {of_weights(saved(4096, 2, false))});
  activation.saved[0].selective = true;
  Layer layer{"layer", {attention_part(4, 4, 64), activation}};
  Training training{.recompute = Recompute::selective};
  EXPECT_GT(time_of(layer, {.tokens = 4096}, {}, training).again, 0);
  training.frozen = true;
  EXPECT_EQ(time_of(layer, {.tokens = 4096}, {}, training).again, 0);
}

TEST(LayerTime, RecomputeIsNotOfHeads) {
  Layer head{"head", {linear_part(1024, 32000, Cut::vocabulary)}};
  EXPECT_EQ(time_of(head, {.tokens = 4096}, {}, {.recompute = Recompute::full}).again, 0);
}

TEST(LayerTime, AddsUp) {
  LayerTime sum{1, 2, 3, 4, 5};
  sum += {10, 20, 30, 40, 50};
  expect_near(sum, {11, 22, 33, 44, 55});
  EXPECT_EQ(sum.backward(), 55);
}

Layer random_layer(std::mt19937& random) {
  auto width = [&] { return int64_t(16) << random() % 8; };
  Layer layer{"layer", {}};
  for (int i = 0; i < 8; ++i) {
    Part made;
    switch (random() % 5) {
      case 0:
        made = linear_part(width(), width(), Cut(random() % 3));
        break;
      case 1:
        made = attention_part(16, 8, 64);
        break;
      case 2:
        made = expert_part(width(), width(), 64, 1 + int64_t(random() % 8));
        break;
      case 3:
        made = part(PartKind::embedding, width(), width(), Cut::vocabulary);
        break;
      default:
        made = part(PartKind::elementwise, width(), width(), random() % 2 ? Cut::columns : Cut::none);
    }
    made.rows = Rows(random() % 5);
    made.causal = random() % 2;
    layer.parts.push_back(made);
  }
  return layer;
}

TEST(LayerTime, MoreTokensNeverTakeLessAndMoreGpusNeverComputeLonger) {
  for (uint32_t seed = 0; seed < 300; ++seed) {
    std::mt19937 random(seed);
    auto layer = random_layer(random);
    Sequences sequences{.count = double(1 + random() % 4), .tokens = double(1 + random() % 5000), .merge = 4};
    sequences.text = double(random() % 500);
    Training training{.recompute = Recompute(random() % 3),
                      .frozen = random() % 2 == 1,
                      .expert_imbalance = 1 + double(random() % 3) / 4};
    Parallel parallel{.tensor = int64_t(1) << random() % 3, .data = 64};
    parallel.expert = int64_t(1) << random() % 6;
    parallel.sequence_parallel = random() % 2;
    auto time = time_of(layer, sequences, parallel, training);

    auto longer = sequences;
    longer.tokens += 100, longer.text += 10;
    auto more = time_of(layer, longer, parallel, training);
    EXPECT_LE(time.forward, more.forward) << "seed " << seed;
    EXPECT_LE(time.input, more.input) << "seed " << seed;
    EXPECT_LE(time.weight, more.weight) << "seed " << seed;
    EXPECT_LE(time.links, more.links) << "seed " << seed;

    double slack = 1e-12 * (time.forward + time.backward());
    auto wider = parallel;
    wider.tensor *= 2;
    auto faster = time_of(layer, sequences, wider, training);
    EXPECT_LE(compute(faster), compute(time) + slack) << "seed " << seed;
    wider = parallel;
    wider.expert *= 2;
    EXPECT_LE(compute(time_of(layer, sequences, wider, training)), compute(time) + slack) << "seed " << seed;

    EXPECT_GE(time.input, time.again) << "seed " << seed;
    EXPECT_LE(time.links, (time.forward + time.backward()) * (1 + 1e-12)) << "seed " << seed;
  }
}

TEST(LayerTime, RefusesFiguresThatAreNone) {
  auto layer = gpt(64, 4);
  Sequences right{.tokens = 8};
  auto error = [&](const Sequences& sequences, const Parallel& parallel, const Training& training,
                   const Hardware& hardware, const Efficiency& efficiency) {
    return error_of([&] { layer_time(layer, sequences, parallel, training, hardware, efficiency); });
  };
  EXPECT_EQ(error(right, {}, {}, kRound, {}), "no error");
  for (double value : {0.0, -3.0, kNan, kInfinity})
    EXPECT_EQ(error({.tokens = value}, {}, {}, kRound, {}),
              concat("[sequences] tokens must be above 0 and finite, got ", value));
  EXPECT_EQ(error(right, {.expert = 2}, {}, kRound, {}),
            "[parallel] expert 2 must divide tensor * data = 1 * 1 = 1");
  EXPECT_EQ(error(right, {}, {.expert_imbalance = 0.5}, kRound, {}),
            "[training] expert imbalance must be at least 1 and finite, got 0.5");
  auto none = kRound;
  none.peak = kNan;
  EXPECT_EQ(error(right, {}, {}, none, {}), "[hardware] peak must be above 0 and finite, got nan");
  EXPECT_EQ(error(right, {}, {}, kRound, {.attention = 2}),
            "[efficiency] attention must be above 0 and at most 1, got 2");
}

}  // namespace
}  // namespace bigmac
