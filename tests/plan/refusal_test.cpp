#include "tests/plan/support.h"

// Why something cannot be run, with the numbers that do not fit.
namespace bigmac {
namespace {

constexpr int64_t kBatch = 32;

void expect_refused(const Configuration& c, const Workload& workload, const std::string& kind,
                    const std::vector<std::string>& parts, int64_t batch = kBatch) {
  auto found = refusal(c, workload, batch);
  ASSERT_TRUE(found) << to_text(c, workload);
  EXPECT_EQ(found->kind, kind);
  expect_told(found->text, parts);
}

TEST(Refusal, IsNoneForWhatIsLegal) {
  auto workload = small_workload({small_encoder("image")});
  EXPECT_FALSE(refusal(configuration_of(workload, 2), workload, kBatch));
  EXPECT_FALSE(refusal(configuration_of(workload, 4, 2, Base::interleaved), workload, kBatch));
  EXPECT_FALSE(refusal(configuration_of(small_workload(), 8), small_workload(), kBatch));
  EXPECT_FALSE(refusal(disttrain_of(workload, 4, 2, 2), workload, kBatch));
}

TEST(Refusal, NamesSizesBelowOne) {
  auto workload = small_workload();
  auto legal = configuration_of(workload, 2);
  for (int64_t value : {0, -3}) {
    auto expect = [&](auto change, const char* what) {
      auto c = legal;
      change(c);
      expect_refused(c, workload, "sizes", {what, concat("at least 1, got ", value)});
    };
    expect([&](auto& c) { c.parallel.tensor = value; }, "tensor parallel");
    expect([&](auto& c) { c.parallel.pipeline = value; }, "pipeline parallel");
    expect([&](auto& c) { c.parallel.data = value; }, "data parallel");
    expect([&](auto& c) { c.parallel.expert = value; }, "expert parallel");
    expect([&](auto& c) { c.chunks = value; }, "chunks");
    expect([&](auto& c) { c.microbatch = value; }, "samples a microbatch");
  }
}

TEST(Refusal, NamesGpusThatDoNotDivide) {
  auto workload = small_workload({small_encoder("image")});
  auto c = configuration_of(workload, 2);
  c.parallel.data = 3;
  expect_refused(c, workload, "GPUs do not divide", {"TP 1 * PP 2 * DP 3 = 6 GPUs", "the cluster has 8"});
  c = disttrain_of(workload, 4, 2, 3);
  expect_refused(c, workload, "GPUs do not divide", {"+ 4 of encoders", "= 10 GPUs", "the cluster has 8"});
}

TEST(Refusal, NamesTensorParallelismBeyondANode) {
  auto workload = small_workload();
  auto c = configuration_of(workload, 1);
  c.parallel.tensor = 8;
  c.parallel.data = 1;
  expect_refused(c, workload, "tensor parallel", {"TP 8", "a node of 4 GPUs"});
}

TEST(Refusal, NamesWhatTensorParallelismDoesNotDivide) {
  auto workload = small_workload({small_encoder("image")});
  workload.gpus = 24;
  workload.hardware.gpus_per_node = 24;
  auto c = configuration_of(workload, 1);
  c.parallel.tensor = 3;
  c.parallel.data = 8;
  expect_refused(c, workload, "layers do not divide", {"'backbone'", "3"}, 48);
  // 8 heads, 4 kv heads and the encoder's 4: the encoder has too few.
  workload = small_workload({small_encoder("image")});
  workload.hardware.gpus_per_node = 8;
  workload.backbone.model = cost::decoder_model({.layers = 8,
                                                 .hidden = 512,
                                                 .heads = 8,
                                                 .kv_heads = 8,
                                                 .head_dim = 64,
                                                 .vocabulary = 16000,
                                                 .ffn = 1536});
  c = configuration_of(workload, 1);
  c.parallel.tensor = 8;
  c.parallel.data = 1;
  expect_refused(c, workload, "layers do not divide", {"'image'", "8", "4"});
  // On GPUs of its own it is not cut.
  workload.gpus = 16;
  c = disttrain_of(workload, 8, 1, 1);
  c.parallel.tensor = 8;
  EXPECT_FALSE(refusal(c, workload, kBatch));
  c.encoder_tensor = 8;
  expect_refused(c, workload, "layers do not divide", {"'image'", "8", "4"});
}

TEST(Refusal, NamesExpertsThatAreNotThere) {
  auto workload = small_workload();
  auto c = configuration_of(workload, 2);
  c.parallel.expert = 2;
  expect_refused(c, workload, "expert parallel", {"EP 2", "'backbone' has no experts"});
  workload.backbone.model = small_decoder(8, 4);
  EXPECT_FALSE(refusal(c, workload, kBatch));
  c.parallel.expert = 8;
  c.parallel.pipeline = 1;
  c.parallel.data = 8;
  expect_refused(c, workload, "layers do not divide", {"'backbone'", "8", "4"});
  c.parallel.expert = 3;
  expect_refused(c, workload, "layers do not divide", {"'backbone'", "3", "8"});
}

TEST(Refusal, NamesABatchThatDoesNotDivide) {
  auto workload = small_workload();
  auto c = configuration_of(workload, 2);
  c.microbatch = 3;
  expect_refused(c, workload, "batch does not divide",
                 {"global batch of 32", "DP 4 * 3 samples a microbatch = 12"});
  c.microbatch = 16;
  expect_refused(c, workload, "batch does not divide", {"DP 4 * 16", "= 64"});
  c.microbatch = 8;
  EXPECT_FALSE(refusal(c, workload, kBatch));
  for (int64_t none : {0, -32}) expect_refused(c, workload, "batch does not divide", {"global batch"}, none);
}

TEST(Refusal, NamesStagesWithoutLayers) {
  auto workload = small_workload({}, 5);
  expect_refused(configuration_of(workload, 8), workload, "more stages than layers",
                 {"PP 8 * VPP 1 = 8 stages", "7 layers"});
  expect_refused(configuration_of(workload, 4, 2, Base::zb_v), workload, "more stages than layers",
                 {"PP 4 * VPP 2 = 8 stages", "7 layers"});
  // megatron's encoder has a stage to itself.
  auto with = small_workload({small_encoder("image")}, 5);
  auto c = configuration_of(with, 8);
  expect_refused(c, with, "more stages than layers", {"8 stages"});
  c.arrangement = Arrangement::megatron;
  EXPECT_FALSE(refusal(c, with, kBatch));
}

TEST(Refusal, NamesSplitsThatDoNotAddUp) {
  auto workload = small_workload();
  auto c = configuration_of(workload, 2);
  c.layers = {4, 5};
  expect_refused(c, workload, "split", {"9", "10"});
  c.layers = {4, 4, 2};
  expect_refused(c, workload, "split", {"3 stages", "2"});
  c.layers = {11, -1};
  expect_refused(c, workload, "split", {"-1"});
  c.layers = {3, 7};
  EXPECT_FALSE(refusal(c, workload, kBatch));
}

TEST(Refusal, NamesBasesWithOtherChunks) {
  auto workload = small_workload();
  expect_refused(configuration_of(workload, 2, 2), workload, "base", {"1f1b", "V=2"});
  expect_refused(configuration_of(workload, 2, 1, Base::interleaved), workload, "base",
                 {"interleaved", "V=1"});
  expect_refused(configuration_of(workload, 2, 3, Base::zb_v), workload, "base", {"zb-v", "V=3"});
  expect_refused(configuration_of(workload, 2, 1, Base::dualpipe_v), workload, "base", {"dualpipe-v", "V=1"});
  expect_refused(configuration_of(workload, 2, 2, Base::zb_h1), workload, "base", {"zb-h1", "V=2"});
}

TEST(Refusal, NamesArrangementsThatDoNotFitTheModules) {
  auto bare = small_workload();
  auto with = small_workload({small_encoder("image")});
  for (Arrangement arrangement : kWithModules) {
    auto c = configuration_of(bare, 2);
    c.arrangement = arrangement;
    expect_refused(c, bare, "arrangement", {"llm-only", std::string(name(arrangement))});
  }
  auto c = configuration_of(with, 2);
  c.arrangement = Arrangement::llm_only;
  expect_refused(c, with, "arrangement", {"llm-only"});
  c = configuration_of(with, 2);
  c.module_recompute.clear();
  expect_refused(c, with, "recompute", {"0 of 1"});
  c.module_recompute.assign(2, cost::Recompute::none);
  expect_refused(c, with, "recompute", {"2 of 1"});
}

TEST(Refusal, NamesOwnGpusThatAreNoWholeNodesOrReplicas) {
  auto workload = small_workload({small_encoder("image")});
  auto c = configuration_of(workload, 2);
  c.parallel.data = 2;
  c.encoder_gpus = 4;
  expect_refused(c, workload, "disttrain", {"nested has no GPUs of encoders'"});
  expect_refused(disttrain_of(workload, 2, 2, 3), workload, "disttrain",
                 {"2 encoder GPUs", "whole nodes of 4"}, 6);
  expect_refused(disttrain_of(workload, 0, 2, 4), workload, "disttrain", {"0 are encoders'"});
  expect_refused(disttrain_of(workload, 0, 2, 2, 4), workload, "disttrain", {"0 are encoders'"});
  expect_refused(disttrain_of(workload, 4, 1, 1, 3), workload, "disttrain", {"3 are generators'"});
  workload.gpus = 16;
  expect_refused(disttrain_of(workload, 4, 2, 6), workload, "disttrain", {"4 encoder GPUs", "DP 6"}, 12);
  c = disttrain_of(workload, 8, 2, 4);
  c.encoder_tensor = 4;
  expect_refused(c, workload, "disttrain", {"8 encoder GPUs", "DP 4 * TP 4"});
  c = disttrain_of(workload, 8, 2, 4);
  c.base = Base::zb_h1;
  expect_refused(c, workload, "base", {"disttrain", "zb-h1"});
  c.base = Base::interleaved;
  c.chunks = 2;
  expect_refused(c, workload, "base", {"disttrain", "interleaved VPP 2"});
  // Within one node any number will do.
  workload = small_workload({small_encoder("image")});
  workload.gpus = 4;
  EXPECT_FALSE(refusal(disttrain_of(workload, 1, 3, 1), workload, kBatch));
}

TEST(Refusal, NamesShardsThatDoNotDivideTheGpusThatHoldThem) {
  auto workload = small_workload({small_encoder("image")});
  workload.modules[0].shard = 4;
  EXPECT_FALSE(refusal(configuration_of(workload, 4), workload, kBatch));
  auto c = configuration_of(workload, 4);
  c.arrangement = Arrangement::megatron;  // 2 GPUs of the first stage
  expect_refused(c, workload, "shards", {"'image'", "4 GPUs", "the 2 that hold it"});
  c = configuration_of(workload, 2);
  c.arrangement = Arrangement::megatron;
  EXPECT_FALSE(refusal(c, workload, kBatch));
  workload.modules[0].shard = 8;
  expect_refused(disttrain_of(workload, 4, 2, 2), workload, "shards",
                 {"'image'", "8 GPUs", "the 4 that hold it"});
  workload.gpus = workload.hardware.gpus_per_node = 6;
  workload.modules[0].shard = 3;
  c = configuration_of(workload, 1);
  EXPECT_FALSE(refusal(c, workload, 6));
  c.parallel.tensor = 2;
  c.parallel.data = 3;
  expect_refused(c, workload, "shards", {"'image'", "3 GPUs", "its TP 2 does not divide"}, 6);
}

// Whatever is asked for: refused, or it comes to something.
TEST(Refusal, NeverThrowsAndWhatItLetsPassCanBeRun) {
  int64_t legal = 0, refused = 0, without_table = 0;
  for (uint64_t seed = 1; seed <= 400; ++seed) {
    Workloads workloads(seed);
    auto workload = workloads.draw();
    int64_t samples = workloads.pick<int64_t>({1, 2, 3, 4});
    Estimator estimator(workload, samples);
    for (int n = 0; n < 25; ++n) {
      Configuration c;
      auto count = [&](std::initializer_list<int64_t> odd) {
        return workloads.chance(0.9) ? workloads.pick<int64_t>({1, 1, 2, 4}) : workloads.pick<int64_t>(odd);
      };
      c.parallel = {.tensor = count({0, -1, 3, 8}),
                    .pipeline = count({0, 3, 8, 16}),
                    .data = 1,
                    .expert = workloads.chance(0.7) ? 1 : count({0, 3, 8})};
      if (c.parallel.tensor * c.parallel.pipeline > 0)
        c.parallel.data = workload.gpus / (c.parallel.tensor * c.parallel.pipeline);
      c.chunks = count({0, 3, 7});
      c.microbatch = count({0, -2, 3, 5});
      c.base = workloads.pick<Base>({Base::gpipe, Base::one_f_one_b, Base::one_f_one_b, Base::interleaved,
                                     Base::zb_h1, Base::zb_v, Base::dualpipe_v});
      c.arrangement = workloads.pick<Arrangement>(
          {Arrangement::llm_only, Arrangement::nested, Arrangement::megatron, Arrangement::nested_fill,
           Arrangement::three_phase, Arrangement::optimus, Arrangement::disttrain});
      if (c.arrangement == Arrangement::disttrain) {
        c.encoder_gpus = count({0, -4, 8});
        c.generator_gpus = workloads.chance(0.5) ? 0 : count({3, 8});
        c.encoder_tensor = workloads.chance(0.9) ? 1 : count({0, -1, 3});
        int64_t left = workload.gpus - c.encoder_gpus - c.generator_gpus;
        if (c.parallel.tensor * c.parallel.pipeline > 0)
          c.parallel.data = left / (c.parallel.tensor * c.parallel.pipeline);
      }
      c.module_recompute.assign(workload.modules.size(), cost::Recompute::selective);
      if (workloads.chance(0.1)) c.layers = {2, 5};
      auto text = concat("seed ", seed, " samples ", samples, " ", to_text(c, workload));
      std::optional<Refusal> found;
      ASSERT_NO_THROW(found = refusal(c, workload, samples * workload.gpus)) << text;
      if (found) {
        ++refused;
        EXPECT_FALSE(found->kind.empty() || found->text.empty()) << text;
        continue;
      }
      ++legal;
      ASSERT_NO_THROW(estimator.least(c)) << text;
      try {
        auto outcome = estimator.evaluate(c, 1);
        EXPECT_GT(outcome.step, 0) << text;
        EXPECT_TRUE(std::isfinite(outcome.step) && std::isfinite(outcome.memory)) << text;
      } catch (const InvalidInput& error) {
        ++without_table;  // disttrain of a replica without items
        EXPECT_EQ(c.arrangement, Arrangement::disttrain) << text << ": " << error.what();
      }
    }
  }
  EXPECT_GT(legal, 500);
  EXPECT_GT(refused, 3000);
  EXPECT_LT(without_table, 30);
}

TEST(ConfigurationText, NamesWhatDiffers) {
  auto workload = small_workload({small_encoder("image"), small_generator("drawing")});
  auto c = configuration_of(workload, 4);
  EXPECT_EQ(to_text(c, workload), "nested 1f1b TP1 PP4 VPP1 DP2 EP1 MBS1");
  c.warmup_units = 3;
  c.recompute = cost::Recompute::full;
  c.module_recompute = {cost::Recompute::selective, cost::Recompute::none};
  EXPECT_EQ(to_text(c, workload),
            "nested 1f1b TP1 PP4 VPP1 DP2 EP1 MBS1 W3, recompute backbone full, image selective");
  c = disttrain_of(workload, 4, 1, 2, 2);
  expect_told(to_text(c, workload),
              {"disttrain 1f1b TP1 PP1 VPP1 DP2", "4 encoder GPUs", "2 generator GPUs"});
}

}  // namespace
}  // namespace bigmac
