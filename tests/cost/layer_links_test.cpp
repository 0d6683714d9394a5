#include "bigmac/cost/layer_time.h"
#include "bigmac/cost/link_time.h"
#include "tests/cost/layers.h"

namespace bigmac {
namespace {

using namespace cost;

// 1e15 FLOP/s, 1e12 bytes/s; inside 1 us and 100 GB/s, between 10 us and 20 GB/s, 8 GPUs a node.
const Hardware kRound = round_hardware();

LayerTime time_of(const Layer& layer, const Sequences& sequences, const Parallel& parallel = {},
                  const Training& training = {}) {
  return layer_time(layer, sequences, parallel, training, kRound, whole());
}

LayerTime time_of(const Part& only, double rows, const Parallel& parallel, const Training& training = {}) {
  return time_of(Layer{"layer", {only}}, {.tokens = rows}, parallel, training);
}

TEST(LayerLinks, ALayerGathersAndScattersTwice) {
  double bytes = 2.0 * 8192 * 2048;
  double once = all_gather_seconds(bytes, {4, 1}, kRound);
  for (bool sequence : {true, false}) {
    auto time =
        time_of(gpt(2048, 16), {.count = 2, .tokens = 4096}, {.tensor = 4, .sequence_parallel = sequence});
    EXPECT_NEAR(time.links, 8 * once, 1e-9 * once) << sequence;
    auto alone = time_of(gpt(2048, 16), {.count = 2, .tokens = 4096});
    EXPECT_EQ(alone.links, 0);
  }
}

TEST(LayerLinks, WithoutSequenceParallelismRowsAreReduced) {
  double once = all_reduce_seconds(2.0 * 4096 * 1024, {2, 1}, kRound);
  Parallel tensor{.tensor = 2, .sequence_parallel = false};
  auto links_of = [&](const Part& only, const Training& training) {
    return time_of(only, 4096, tensor, training).links;
  };
  Training no_backward{.frozen = true, .passes_gradient = false};
  EXPECT_DOUBLE_EQ(links_of(linear_part(1024, 4096, Cut::columns), no_backward), 0);
  EXPECT_DOUBLE_EQ(links_of(linear_part(1024, 4096, Cut::columns), {}), once);
  EXPECT_DOUBLE_EQ(links_of(linear_part(4096, 1024, Cut::rows), no_backward), once);
  EXPECT_DOUBLE_EQ(links_of(linear_part(4096, 1024, Cut::rows), {}), once);
}

TEST(LayerLinks, RowsThatSeveralPartsReadAreGatheredOnce) {
  auto q = linear_part(2048, 2048, Cut::columns), o = linear_part(2048, 2048, Cut::rows);
  double once = all_gather_seconds(2.0 * 4096 * 2048, {8, 1}, kRound);
  auto links = [&](std::vector<Part> parts) {
    return time_of(Layer{"layer", std::move(parts)}, {.tokens = 4096, .text = 4096}, {.tensor = 8}).links;
  };
  EXPECT_NEAR(links({q, q, q, o}), 4 * once, 1e-9 * once);
  EXPECT_NEAR(links({q, o, q, o}), 8 * once, 1e-9 * once);
  auto text = q;  // another stream's rows are others
  text.rows = Rows::text;
  EXPECT_NEAR(links({q, text, q, text, o}), 6 * once, 1e-9 * once);
}

TEST(LayerLinks, EmbeddingsScatterAndHeadsGather) {
  double once = all_gather_seconds(2.0 * 4096 * 2048, {8, 1}, kRound);
  EXPECT_NEAR(time_of(part(PartKind::embedding, 64000, 2048, Cut::vocabulary), 4096, {.tensor = 8}).links,
              2 * once, 1e-9 * once);
  EXPECT_NEAR(time_of(linear_part(2048, 64000, Cut::vocabulary), 4096, {.tensor = 8}).links, 2 * once,
              1e-9 * once);
}

TEST(LayerLinks, TopKCopiesOfEachRowGoToTheExpertsAndBack) {
  Layer layer{"moe layer", {expert_part(2048, 768, 128, 8), expert_part(768, 2048, 128, 8)}};
  auto links = [&](const Parallel& parallel, double imbalance = 1) {
    return time_of(layer, {.tokens = 4096}, parallel, {.expert_imbalance = imbalance}).links;
  };
  auto once = [](double copies, int64_t expert) {
    return all_to_all_seconds(copies * 2048 * 2, {expert, 1}, kRound);
  };
  EXPECT_EQ(links({.data = 8}), 0);
  EXPECT_DOUBLE_EQ(links({.data = 8, .expert = 8}), 4 * once(8 * 4096, 8));
  EXPECT_DOUBLE_EQ(links({.data = 32, .expert = 32}), 4 * once(8 * 4096, 32));
  EXPECT_DOUBLE_EQ(links({.data = 8, .expert = 8}, 1.25), 4 * once(1.25 * 8 * 4096, 8));
  EXPECT_DOUBLE_EQ(links({.tensor = 2, .data = 4, .expert = 8}), 4 * once(8 * 2048, 8));
}

TEST(LayerLinks, LinksAreSlowedByTheirEfficiency) {
  Efficiency half = whole();
  half.links = 0.5;
  Parallel parallel{.tensor = 2, .data = 4, .expert = 8};
  auto time = time_of(qwen3_moe(), {.tokens = 4096}, parallel);
  auto slow = layer_time(qwen3_moe(), {.tokens = 4096}, parallel, {}, kRound, half);
  EXPECT_DOUBLE_EQ(slow.links, 2 * time.links);
  auto computes = [](const LayerTime& all) { return all.forward + all.backward() - all.links; };
  EXPECT_NEAR(computes(slow), computes(time), 1e-12 * computes(time));
}

}  // namespace
}  // namespace bigmac
