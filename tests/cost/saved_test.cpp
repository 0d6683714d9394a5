#include <gtest/gtest.h>

#include <functional>

#include "bigmac/cost/parts.h"
#include "tests/cost/models.h"

namespace bigmac {
namespace {

using cost::Layer;
using cost::Saved;
using cost::Sequences;

using Choice = std::function<bool(const Saved&)>;
const Choice kAll = [](const Saved&) { return true; };

double kept_bytes(const Layer& layer, const Sequences& sequences, const Choice& choice, double tensor = 1) {
  double bytes = 0;
  for (const auto& part : layer.parts)
    for (const auto& saved : part.saved) {
      if (!choice(saved)) continue;
      double rows = rows_of(part.rows, sequences) * (part.experts > 0 ? double(part.top_k) : 1);
      double keys = saved.per_key ? keys_of(part, sequences) : 1;
      bytes += rows * keys * saved.width * saved.bytes / (saved.cut ? tensor : 1);
    }
  return bytes;
}

bool is_score(const Saved& saved) {
  return saved.per_key;
}

// Korthikanti et al. 2022, equations 1, 2 and 4, and their selective recompute.
TEST(SavedActivations, OfTheGptLayerAreThePublishedFormulas) {
  for (int64_t heads : {16, 96})
    for (double s : {128.0, 2048.0})
      for (double b : {1.0, 4.0})
        for (double t : {1.0, 8.0}) {
          double h = 64.0 * double(heads), a = double(heads);
          auto layer = cost::gpt_layer(int64_t(h), heads);
          Sequences sequences{b, s};
          EXPECT_DOUBLE_EQ(kept_bytes(layer, sequences, kAll), s * b * h * (34 + 5 * a * s / h));
          EXPECT_DOUBLE_EQ(kept_bytes(layer, sequences, kAll, t),
                           s * b * h * (10 + 24 / t + 5 * a * s / (h * t)));
          EXPECT_DOUBLE_EQ(kept_bytes(layer, sequences, [](const Saved& saved) { return !saved.selective; }),
                           s * b * h * 34);
        }
}

TEST(SavedActivations, OfTheGptLayerDropOnlyScoresUnderSelectiveRecompute) {
  for (const auto& part : cost::gpt_layer(1024, 16).parts)
    for (const auto& saved : part.saved) EXPECT_EQ(saved.selective, is_score(saved)) << saved.name;
}

TEST(SavedActivations, OfADenseDecoderLayerAreWrittenOut) {
  auto layer = shape_model("qwen2.5-7b").layers[1];
  double h = 3584, kv = 512, f = 18944, heads = 28;
  double norms = 2 * (h + h), outputs_of_norms = 2 * 2 * h;
  double attention = 2 * (h + kv) + 2 * kv + 2 * h + 4 * heads;
  double mlp = 2 * (2 * f), activation = 2 * f;
  Sequences one{1, 1};
  EXPECT_DOUBLE_EQ(kept_bytes(layer, one, kAll), norms + outputs_of_norms + attention + mlp + activation);
  EXPECT_DOUBLE_EQ(kept_bytes(layer, one, [](const Saved& saved) { return saved.for_weights; }),
                   outputs_of_norms + activation);
  EXPECT_DOUBLE_EQ(kept_bytes(layer, one, [](const Saved& saved) { return saved.selective; }),
                   outputs_of_norms + activation);
  EXPECT_DOUBLE_EQ(kept_bytes(layer, one, [](const Saved& saved) { return saved.cut; }),
                   attention + mlp + activation);
}

TEST(SavedActivations, OfAMixtureCountTheCopiesOfItsRows) {
  auto layer = shape_model("qwen3-30b-a3b").layers[1];
  double h = 2048, q = 4096, kv = 512, f = 768, heads = 32, experts = 128, k = 8;
  double norms = 2 * (h + h), outputs_of_norms = 2 * 2 * h;
  double before_qk_norm = 2 * (q + kv), after_qk_norm = 2 * (q + kv);
  double attention = 2 * kv + 2 * q + 4 * heads;
  double mixture = 4 * experts + k * (2 * h + 2 * 2 * f + 2 * h), activation = k * 2 * f;
  Sequences one{1, 1};
  EXPECT_DOUBLE_EQ(kept_bytes(layer, one, kAll), norms + outputs_of_norms + before_qk_norm + after_qk_norm +
                                                     attention + mixture + activation);
  EXPECT_DOUBLE_EQ(kept_bytes(layer, one, [](const Saved& saved) { return saved.selective; }),
                   outputs_of_norms + after_qk_norm + activation);
  EXPECT_DOUBLE_EQ(kept_bytes(layer, one, [](const Saved& saved) { return saved.cut; }),
                   before_qk_norm + after_qk_norm + attention);
}

TEST(SavedActivations, OfADoubleBlockAreTwoStreamsAndTheirJointAttention) {
  auto layer = shape_model("qwen-image").layers[1];
  double h = 3072, f = 12288, n = 100, t = 20;
  double before = 2 * (h + 2 * h) + 2 * (2 * h + h) + 2 * 2 * h;  // norm, q k v, q k after their norm
  double after = 2 * h + 2 * h + 2 * 2 * h + 2 * f + 2 * f + 2 * h;
  double joint = 2 * h + 4 * 24, a_sample = 2 * (2 * (h + 6 * h));
  EXPECT_DOUBLE_EQ(kept_bytes(layer, {1, n, t}, kAll), (n + t) * (before + after + joint) + a_sample);
}

TEST(SavedActivations, OfAVisionBlockAndItsDeepstackMergerAreWrittenOut) {
  auto layer = shape_model("qwen3-omni-vision").layers[9];
  double h = 1152, f = 4304, n = 400;
  double block = 2 * (h + h) + 2 * 2 * h + 2 * 4 * h + 4 * 16 + 2 * (f + f);
  double merger = 2 * 4 * h * 3;  // of a merged row: its norm's output, before and after the activation
  EXPECT_DOUBLE_EQ(kept_bytes(layer, {1, n, 0, 4}, kAll), n * block + n / 4 * merger);
}

TEST(SavedActivations, OfAnAudioLayerHoldTheProjectionsThatNoRotaryEmbeddingFollows) {
  auto layer = shape_model("qwen3-omni-audio").layers[1];
  double h = 1280, f = 5120;
  EXPECT_DOUBLE_EQ(kept_bytes(layer, {1, 1}, kAll),
                   2 * (h + h) + 2 * 2 * h + 2 * 4 * h + 4 * 20 + 2 * (f + f));
}

TEST(SavedActivations, OfTheHeadHoldTheLogitsInSinglePrecision) {
  auto head = shape_model("qwen2.5-7b").layers.back();
  EXPECT_DOUBLE_EQ(kept_bytes(head, {1, 1}, kAll), 2 * 2 * 3584 + 4 * 152064);
}

TEST(SavedActivations, OfAttentionAreCutByHeadsAndThoseOfExpertsAreNotCut) {
  for (const auto& name : shape_names())
    for (const auto& layer : shape_model(name).layers)
      for (const auto& part : layer.parts)
        for (const auto& saved : part.saved) {
          auto told = name + ' ' + layer.name + ' ' + part.name + ' ' + saved.name;
          EXPECT_GT(saved.width, 0) << told;
          EXPECT_FALSE(saved.per_key) << told;
          EXPECT_TRUE(saved.cut || part.kind != cost::PartKind::attention) << told;
          EXPECT_FALSE(saved.cut && part.experts > 0) << told;
        }
}

// What runs again under selective recompute must be cheap.
TEST(SavedActivations, ThatSelectiveRecomputeDropsComeFromNoMatrixProduct) {
  for (const auto& name : shape_names())
    for (const auto& layer : shape_model(name).layers)
      for (const auto& part : layer.parts)
        for (const auto& saved : part.saved) {
          bool cheap = part.kind == cost::PartKind::norm || part.kind == cost::PartKind::elementwise;
          EXPECT_TRUE(cheap || !saved.selective) << name << ' ' << part.name << ' ' << saved.name;
        }
}

}  // namespace
}  // namespace bigmac
