#include "bigmac/cost/layer_bytes.h"

#include <limits>

#include "tests/cost/layers.h"

namespace bigmac {
namespace {

using namespace cost;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Gpt {
  const char* name;
  int64_t h, a, s, b, t;
};

// The models of Korthikanti et al. 2022, table 3; s = 2048, tensor parallelism 8.
constexpr Gpt kModels[] = {{"22B", 6144, 64, 2048, 4, 8},
                           {"GPT-3 175B", 12288, 96, 2048, 1, 8},
                           {"MT-NLG 530B", 20480, 128, 2048, 1, 8},
                           {"1T", 25600, 160, 2048, 1, 8}};

LayerBytes bytes_of(const Gpt& model, const Parallel& parallel, Recompute recompute, bool frozen = false) {
  return layer_bytes(gpt(model.h, model.a), model.h, {.count = double(model.b), .tokens = double(model.s)},
                     parallel, {.recompute = recompute, .frozen = frozen});
}

class PublishedBytes : public testing::TestWithParam<Gpt> {
 protected:
  double h = double(GetParam().h), a = double(GetParam().a), s = double(GetParam().s),
         t = double(GetParam().t);
  double sbh = s * double(GetParam().b) * h;
  Parallel alone{};
  Parallel tensor{.tensor = GetParam().t, .sequence_parallel = false};
  Parallel sequence{.tensor = GetParam().t};

  double kept(const Parallel& parallel, Recompute recompute) {
    return bytes_of(GetParam(), parallel, recompute).kept;
  }
};

TEST_P(PublishedBytes, WithoutRecompute) {
  double scores = sbh / h * 5 * a * s;  // sbh * 5as/h without a remainder
  EXPECT_EQ(kept(alone, Recompute::none), sbh * 34 + scores);
  EXPECT_EQ(kept(tensor, Recompute::none), sbh * (10 + 24 / t) + scores / t);
  EXPECT_EQ(kept(sequence, Recompute::none), (sbh * 34 + scores) / t);
}

TEST_P(PublishedBytes, WithSelectiveRecompute) {
  EXPECT_EQ(kept(alone, Recompute::selective), 34 * sbh);
  EXPECT_EQ(kept(tensor, Recompute::selective), sbh * (10 + 24 / t));
  EXPECT_EQ(kept(sequence, Recompute::selective), 34 * sbh / t);
}

TEST_P(PublishedBytes, WithFullRecompute) {
  EXPECT_EQ(kept(alone, Recompute::full), 2 * sbh);
  EXPECT_EQ(kept(tensor, Recompute::full), 2 * sbh);
  EXPECT_EQ(kept(sequence, Recompute::full), 2 * sbh / t);
}

TEST_P(PublishedBytes, WhatRecomputeBringsBackIsWhatItDropped) {
  for (const auto& parallel : {alone, tensor, sequence}) {
    double all = kept(parallel, Recompute::none);
    for (auto recompute : {Recompute::none, Recompute::selective, Recompute::full}) {
      auto bytes = bytes_of(GetParam(), parallel, recompute);
      EXPECT_EQ(bytes.kept + bytes.working, all) << name(recompute);
      EXPECT_EQ(bytes.working == 0, recompute == Recompute::none);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Korthikanti, PublishedBytes, testing::ValuesIn(kModels),
                         [](const auto& model) { return concat("model", model.index); });

// Section 4.2 of the paper: for GPT-3 5as/h = 80, and selective recompute saves 70 % of activations, for
// MT-NLG 65 %.
TEST(LayerBytes, SelectiveRecomputeSavesThePublishedShare) {
  auto saved_share = [](const Gpt& model) {
    auto bytes = bytes_of(model, {}, Recompute::selective);
    return bytes.working / (bytes.kept + bytes.working);
  };
  EXPECT_NEAR(saved_share(kModels[1]), 0.70, 0.005);
  EXPECT_NEAR(saved_share(kModels[2]), 0.65, 0.005);
}

TEST(LayerBytes, FrozenKeepsNothingThatOnlyWeightsNeed) {
  const auto& model = kModels[1];
  double sbh = 2048.0 * 12288;
  // Without 2 of each LayerNorm's output, 2 of attention's and 8 of GELU's.
  EXPECT_EQ(bytes_of(model, {}, Recompute::selective, true).kept, sbh * (34 - 2 - 2 - 2 - 8));
  EXPECT_EQ(bytes_of(model, {}, Recompute::full, true).kept, sbh * 2);
}

TEST(LayerBytes, FrozenWithoutAnythingTrainedBeforeKeepsNothing) {
  for (auto recompute : {Recompute::none, Recompute::selective, Recompute::full}) {
    auto bytes = layer_bytes(gpt(1024, 16), 1024, {.tokens = 512}, {},
                             {.recompute = recompute, .frozen = true, .passes_gradient = false});
    EXPECT_EQ(bytes.kept, 0);
    EXPECT_EQ(bytes.working, 0);
  }
}

TEST(LayerBytes, TrainedKeepsTheSameWhetherOrNotAnythingTrainedLiesBefore) {
  EXPECT_EQ(layer_bytes(gpt(1024, 16), 1024, {.tokens = 512}, {}, {.passes_gradient = false}).kept,
            layer_bytes(gpt(1024, 16), 1024, {.tokens = 512}, {}, {}).kept);
}

TEST(LayerBytes, ExpertsKeepTopKRowsTimesTheImbalance) {
  auto experts = expert_part(2048, 768, 128, 8);
  experts.saved = {saved(768, 2, false)};
  Layer layer{"moe layer", {experts}};
  Sequences sequences{.count = 2, .tokens = 4096};
  double mean = 2 * 4096 * 8 * 768 * 2.0;
  EXPECT_EQ(layer_bytes(layer, 2048, sequences, {}, {}).kept, mean);
  EXPECT_EQ(layer_bytes(layer, 2048, sequences, {}, {.expert_imbalance = 1.5}).kept, 1.5 * mean);
  // How many experts a GPU holds changes nothing: the rows are those of its group.
  EXPECT_EQ(layer_bytes(layer, 2048, sequences, {.data = 8, .expert = 8}, {}).kept, mean);
  EXPECT_EQ(layer_bytes(layer, 2048, sequences, {.tensor = 4, .data = 2, .expert = 8}, {}).kept, mean / 4);
}

TEST(LayerBytes, OneRowASequenceIsNotCutBySequenceParallelism) {
  auto modulation = linear_part(3072, 18432, Cut::none, {saved(3072, 2, false)});
  modulation.rows = Rows::samples;
  Layer layer{"double block", {modulation}};
  EXPECT_EQ(layer_bytes(layer, 3072, {.count = 3, .tokens = 4096}, {.tensor = 4}, {}).kept, 3 * 3072 * 2);
}

TEST(LayerBytes, FullRecomputeKeepsBothStreamsOfADoubleStreamBlock) {
  auto text = linear_part(3072, 12288, Cut::columns, {saved(12288, 2, true)});
  text.rows = Rows::text;
  auto image = linear_part(3072, 12288, Cut::columns, {saved(12288, 2, true)});
  auto joint = attention_part(24, 24, 128, {saved(3072, 2, true)});
  joint.rows = Rows::joint;
  Layer layer{"double block", {text, image, joint}};
  Sequences sequences{.count = 2, .tokens = 4096, .text = 256};
  EXPECT_EQ(layer_bytes(layer, 3072, sequences, {}, {.recompute = Recompute::full}).kept,
            2 * (4096 + 256) * 3072 * 2);
  EXPECT_EQ(layer_bytes(layer, 3072, sequences, {}, {}).kept, 2 * (4096 + 256) * (12288 + 3072) * 2);
}

TEST(LayerBytes, RecomputeIsNotOfEmbeddingsAndHeads) {
  auto loss = part(PartKind::elementwise, 32000, 1, Cut::vocabulary, {saved(32000, 4, true)});
  loss.saved[0].selective = true;
  Layer head{"head", {linear_part(1024, 32000, Cut::vocabulary), loss}};
  for (auto recompute : {Recompute::none, Recompute::selective, Recompute::full}) {
    auto bytes = layer_bytes(head, 1024, {.tokens = 512}, {}, {.recompute = recompute});
    EXPECT_EQ(bytes.kept, 512.0 * 32000 * 4);
    EXPECT_EQ(bytes.working, 0);
  }
}

TEST(LayerBytes, FullRecomputeNeverKeepsMoreThanNone) {
  Layer layer{"layer", {attention_part(4, 4, 16, {saved(8, 2, true)})}};
  auto bytes = layer_bytes(layer, 1024, {.tokens = 512}, {}, {.recompute = Recompute::full});
  EXPECT_EQ(bytes.kept, 512 * 8 * 2);
  EXPECT_EQ(bytes.working, 0);
}

TEST(LayerBytes, RefusesFiguresThatAreNone) {
  auto layer = gpt(64, 4);
  auto error = [&](int64_t hidden, const Sequences& sequences, const Parallel& parallel,
                   const Training& training) {
    return error_of([&] { layer_bytes(layer, hidden, sequences, parallel, training); });
  };
  EXPECT_EQ(error(0, {.tokens = 8}, {}, {}), "[layer] hidden must be at least 1, got 0");
  for (double value : {0.0, -3.0, kNan, kInfinity}) {
    EXPECT_EQ(error(64, {.tokens = value}, {}, {}),
              concat("[sequences] tokens must be above 0 and finite, got ", value));
    EXPECT_EQ(error(64, {.count = value, .tokens = 8}, {}, {}),
              concat("[sequences] count must be above 0 and finite, got ", value));
  }
  for (double value : {-1.0, kNan, kInfinity})
    EXPECT_EQ(error(64, {.tokens = 8, .text = value}, {}, {}),
              concat("[sequences] text must be at least 0 and finite, got ", value));
  EXPECT_EQ(error(64, {.tokens = 8, .merge = 0}, {}, {}), "[sequences] merge must be at least 1, got 0");
  for (double value : {0.9, -1.0, kNan, kInfinity})
    EXPECT_EQ(error(64, {.tokens = 8}, {}, {.expert_imbalance = value}),
              concat("[training] expert imbalance must be at least 1 and finite, got ", value));
  EXPECT_EQ(error(64, {.tokens = 8}, {.tensor = 0}, {}),
            "[parallel] tensor must be between 1 and 1000000, got 0");
}

// Qwen3-30B-A3B: attention 18,874,624 and one expert 4,718,592 a layer, of which 256 are QK-norms.
constexpr double kCutAttention = 18'874'624 - 256;
constexpr double kWhole = 256 + 2 * 2048 + 2048 * 128;  // norms and router
constexpr double kExperts = 128 * 4'718'592.0;

TEST(StateBytes, AreThoseOfAMixtureOnEightGpus) {
  Parallel parallel{.tensor = 2, .data = 4, .expert = 8};
  auto state = state_bytes(qwen3_moe(), parallel, {}, {}, true);
  EXPECT_EQ(state.parameters, 170'402'304);  // 2 * (9,703,680 + 75,497,472)
  EXPECT_EQ(state.gradients, 340'804'608);
  EXPECT_EQ(state.optimizer, 29'111'040 + 905'969'664);  // 12 * (9,703,680 / 4 + 75,497,472)
  EXPECT_EQ(state.all(), 170'402'304 + 340'804'608 + 935'080'704);
  EXPECT_EQ(state_bytes(qwen3_moe(), parallel, {}, {}, false).optimizer, 1'022'413'824);
}

TEST(StateBytes, DivideAsTheGroupsDo) {
  for (int64_t tensor : {1, 2, 4})
    for (int64_t data : {1, 2, 8, 16})
      for (int64_t expert = 1; expert <= tensor * data && expert <= 128; expert *= 2) {
        Parallel parallel{.tensor = tensor, .data = data, .expert = expert};
        double dense = kCutAttention / double(tensor) + kWhole, experts = kExperts / double(expert);
        auto held = held_parameters(qwen3_moe(), parallel);
        EXPECT_EQ(held.dense, dense);
        EXPECT_EQ(held.experts, experts);
        auto state = state_bytes(qwen3_moe(), parallel, {}, {}, true);
        EXPECT_EQ(state.parameters, 2 * (dense + experts));
        EXPECT_EQ(state.gradients, 4 * (dense + experts));
        EXPECT_EQ(state.optimizer,
                  12 * (dense / double(data) + experts / (double(tensor * data) / double(expert))));
      }
}

TEST(StateBytes, OfAFrozenLayerAreItsParameters) {
  auto state = state_bytes(qwen3_moe(), {}, {.frozen = true}, {}, true);
  EXPECT_EQ(state.parameters, 2 * (kCutAttention + kWhole + kExperts));
  EXPECT_EQ(state.gradients, 0);
  EXPECT_EQ(state.optimizer, 0);
}

TEST(StateBytes, FollowThePrecision) {
  auto state = state_bytes(gpt(1024, 16), {}, {}, {.parameter = 4, .gradient = 2, .optimizer = 8}, true);
  double elements = 12 * 1024.0 * 1024 + 2 * 1024;  // the test's layer has no biases
  EXPECT_EQ(state.parameters, 4 * elements);
  EXPECT_EQ(state.gradients, 2 * elements);
  EXPECT_EQ(state.optimizer, 8 * elements);
}

TEST(StateBytes, BiasOfPartsCutByRowsIsWhole) {
  auto columns = linear_part(1024, 4096, Cut::columns), rows = linear_part(4096, 1024, Cut::rows);
  columns.bias = rows.bias = true;
  auto held = held_parameters({"layer", {columns, rows}}, {.tensor = 8});
  EXPECT_EQ(held.dense, (1024 * 4096 + 4096) / 8 + 1024 * 4096 / 8 + 1024);
}

TEST(StateBytes, ATiedHeadIsACopyWhereThePipelineHasStages) {
  auto projection = linear_part(1024, 32000, Cut::vocabulary);
  projection.tied = true;
  Layer head{"head", {projection}};
  EXPECT_EQ(held_parameters(head, {}).all(), 0);
  EXPECT_EQ(held_parameters(head, {.tensor = 2, .pipeline = 4}).all(), 1024 * 16000);
}

TEST(StateBytes, RefusePrecisionThatIsNone) {
  auto error = [](const Precision& precision) {
    return error_of([&] { state_bytes(gpt(64, 4), {}, {}, precision, true); });
  };
  EXPECT_EQ(error({.parameter = 0}), "[precision] parameter must be above 0 bytes and finite, got 0");
  EXPECT_EQ(error({.gradient = -4}), "[precision] gradient must be at least 0 bytes and finite, got -4");
  EXPECT_EQ(error({.optimizer = kNan}), "[precision] optimizer must be at least 0 bytes and finite, got nan");
  EXPECT_EQ(error({.optimizer = kInfinity}),
            "[precision] optimizer must be at least 0 bytes and finite, got inf");
  EXPECT_EQ(error({.optimizer = 0}), "no error");
}

}  // namespace
}  // namespace bigmac
