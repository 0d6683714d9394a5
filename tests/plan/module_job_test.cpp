#include "bigmac/plan/make_job.h"

#include "bigmac/workload/draw.h"
#include "tests/plan/support.h"

// Encoders and generators of a job, against figures added up by hand.
namespace bigmac {
namespace {

TEST(ModuleJob, HasAnItemOfSizeOneWhereItHasTheMeanTokens) {
  auto workload = small_workload({small_encoder("image"), small_generator("drawing")});
  for (size_t n : {0, 1}) {
    LayerKinds kinds(workload.modules[n].model);
    for (int64_t tensor : {1, 2, 4}) {
      ItemSizes size_of(workload, n, kinds, tensor);
      EXPECT_DOUBLE_EQ(size_of(workload.modules[n].items.tokens), 1);
      double last = 0;
      for (double tokens : {16.0, 64.0, 256.0, 1024.0, 4096.0}) {
        EXPECT_GT(size_of(tokens), last);
        last = size_of(tokens);
      }
    }
  }
}

TEST(ModuleJob, GivesAnItemTheTimeOfItsTokens) {
  auto workload = small_workload({small_encoder("image")});
  auto job = Estimator(workload, 4).job(configuration_of(workload, 2));
  auto tokens = draw_items(workload.modules[0].items, 8, workload.seed, 0);
  size_t at = 0;
  for (size_t sample = 0; sample < 8; ++sample)
    for (double item : tokens[sample]) {
      double seconds = 0;
      for (const auto& layer : workload.modules[0].model.layers)
        seconds +=
            cost::layer_time(layer, {.count = 1, .tokens = item, .merge = workload.modules[0].model.merge},
                             {}, {}, workload.hardware, workload.modules[0].efficiency)
                .forward;
      ASSERT_LT(at, job.step.modules[0].items.size());
      EXPECT_EQ(job.step.modules[0].items[at].microbatch, sample);
      EXPECT_NEAR(job.step.modules[0].items[at].size * job.costs.modules[0].forward, seconds, 1e-9 * seconds);
      ++at;
    }
}

TEST(ModuleJob, TakesTheSameSamplesInEveryConfiguration) {
  auto workload = small_workload({small_encoder("image")});
  workload.modules[0].items.fixed = false;
  workload.modules[0].items.empty = 0.3;
  constexpr int64_t kSamples = 4;
  Estimator estimator(workload, kSamples);
  auto drawn = draw_items(workload.modules[0].items, kSamples * workload.gpus, workload.seed, 0);
  for (int64_t pipeline : {1, 2, 4, 8})
    for (int64_t microbatch : {1, 2, 4}) {
      auto c = configuration_of(workload, pipeline);
      c.microbatch = microbatch;
      auto job = estimator.job(c);
      EXPECT_EQ(job.step.microbatches * microbatch * c.parallel.data, kSamples * workload.gpus);
      size_t at = 0;
      const auto& items = job.step.modules[0].items;
      for (size_t sample = 0; sample < size_t(job.step.microbatches * microbatch); ++sample)
        for (size_t n = 0; n < drawn[sample].size(); ++n, ++at) {
          ASSERT_LT(at, items.size());
          EXPECT_EQ(items[at].microbatch, sample / size_t(microbatch));
        }
      EXPECT_EQ(at, items.size());
    }
}

TEST(ModuleJob, CountsAModulesFlopsByItsItems) {
  auto workload = small_workload({small_encoder("image")});
  workload.modules[0].items.sigma = 0;
  auto bare = small_workload();
  auto c = configuration_of(workload, 2);
  auto with = Estimator(workload, 4).job(c).flops;
  auto without = Estimator(bare, 4).job(configuration_of(bare, 2)).flops;
  // 256 patches: the patches' own linear part, 4 layers of 4 * 256^2 and 3 * 256 * 1024, and the merger.
  double layer = 4 * 256.0 * 256 + 3 * 256.0 * 1024, merger = (1024.0 * 1024 + 1024 * 512) / 4;
  double linear = 2 * 256.0 * (3 * 14 * 14 * 256.0 + 4 * layer + merger),
         attention = 4 * 4.0 * 4 * 64 * 256 * 256;
  EXPECT_NEAR(with - without, 8 * 3 * 3 * (linear + attention), 1e-6 * with);
  workload.modules[0].frozen = true;
  EXPECT_NEAR(Estimator(workload, 4).job(c).flops - without, 8 * 3 * (linear + attention), 1e-6 * with);
}

TEST(ModuleJob, SharesOutAModulesStatesOverItsShard) {
  auto workload = small_workload({small_encoder("image")});
  auto c = configuration_of(workload, 2);
  auto whole = Estimator(workload, 4).job(c);
  workload.modules[0].shard = 4;
  auto shared = Estimator(workload, 4).job(c);
  for (size_t rank : {0, 1}) {
    double parameters = constant_of(whole, rank, "parameters of image");
    EXPECT_NEAR(constant_of(shared, rank, "parameters of image"), parameters / 4, 1);
    EXPECT_NEAR(constant_of(shared, rank, "gradients of image"),
                constant_of(whole, rank, "gradients of image") / 4, 1);
    EXPECT_NEAR(constant_of(shared, rank, "optimizer states of image"), 12 * parameters / 2 / 8, 1);
    double gathered = constant_of(shared, rank, "gathered parameters of image");
    EXPECT_GT(gathered, 0);
    EXPECT_LT(gathered, 2 * parameters);
  }
  EXPECT_GT(shared.costs.modules[0].least_forward, 0);
  EXPECT_GT(shared.costs.modules[0].least_backward, shared.costs.modules[0].least_forward);
}

TEST(ModuleJob, GathersAShardOnlyOverTheGpusThatHoldTheSamePartOfIt) {
  auto workload = small_workload({small_encoder("image")});
  workload.hardware.inside.latency = 0;
  workload.modules[0].shard = 4;
  auto gather = [&](int64_t tensor) {
    auto c = configuration_of(workload, 2);
    c.parallel.data /= tensor;
    c.parallel.tensor = tensor;
    return Estimator(workload, 4).job(c).costs.modules[0].least_forward;
  };
  // 3/4 of all over 4 GPUs; 1/2 of half over 2, and what is not cut.
  EXPECT_GT(gather(2), gather(1) / 3);
  EXPECT_LT(gather(2), gather(1) / 2.8);
  EXPECT_EQ(gather(4), 0);
}

TEST(ModuleJob, SendsAllOfAnEncodersFeatures) {
  auto workload = small_workload({small_encoder("image")});
  auto c = configuration_of(workload, 2);
  double one = Estimator(workload, 4).job(c).bytes.item_out[0];
  workload.modules[0].model.features = 4;
  auto job = Estimator(workload, 4).job(c);
  EXPECT_DOUBLE_EQ(job.bytes.item_out[0], 4 * one);
  EXPECT_DOUBLE_EQ(job.links.item_bytes[0], 4 * one);
}

TEST(ModuleJob, KeepsNothingOfAFrozenEncoder) {
  auto workload = small_workload({small_encoder("image")});
  workload.modules[0].frozen = true;
  auto job = Estimator(workload, 4).job(configuration_of(workload, 2));
  EXPECT_EQ(job.costs.modules[0].backward, 0);
  EXPECT_FALSE(job.step.modules[0].trained);
  auto schedule = make_schedule(job);
  EXPECT_FALSE(schedule.shares.list.empty());
  for (const auto& op : schedule.operators)
    EXPECT_FALSE(op.module == Module::encoder && op.phase == Phase::backward);
  EXPECT_EQ(job.bytes.item[0], 0);
  for (size_t rank : {0, 1}) {
    EXPECT_GT(constant_of(job, rank, "parameters of image"), 0);
    EXPECT_EQ(constant_of(job, rank, "gradients of image"), 0);
    EXPECT_EQ(constant_of(job, rank, "optimizer states of image"), 0);
  }
}

// Its loss needs its weights' part no more, but the backbone needs its input's.
TEST(ModuleJob, RunsAFrozenGeneratorAsAnyOther) {
  auto workload = small_workload({small_generator("drawing")});
  workload.modules[0].frozen = true;
  auto job = Estimator(workload, 4).job(configuration_of(workload, 2));
  EXPECT_TRUE(job.step.modules[0].trained);
  EXPECT_GT(job.costs.modules[0].backward, 0);
  EXPECT_FALSE(make_schedule(job).operators.empty());
}

// Without backwards there is less to do and no gradient to wait for.
TEST(ModuleJob, OfAFrozenEncoderTakesNoLongerInAnySystem) {
  auto workload = small_workload({small_encoder("image")}), frozen = workload;
  frozen.modules[0].frozen = true;
  for (auto arrangement : {Arrangement::nested, Arrangement::nested_fill, Arrangement::three_phase,
                           Arrangement::optimus, Arrangement::megatron}) {
    auto c = configuration_of(workload, 2);
    c.arrangement = arrangement;
    auto trained = Estimator(workload, 8).evaluate(c), found = Estimator(frozen, 8).evaluate(c);
    EXPECT_LT(found.step, trained.step) << name(arrangement);
    EXPECT_LT(found.memory, trained.memory) << name(arrangement);
  }
}

}  // namespace
}  // namespace bigmac
