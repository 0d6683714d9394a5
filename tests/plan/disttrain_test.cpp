#include "bigmac/plan/make_job.h"
#include "bigmac/schedule/check.h"
#include "tests/plan/support.h"

// Modules on GPUs of their own beside the replicas of the backbone.
namespace bigmac {
namespace {

Workload sixteen_gpus(std::vector<WorkloadModule> modules) {
  auto workload = small_workload(std::move(modules), 12);
  workload.gpus = 16;
  return workload;
}

TEST(Disttrain, GivesEachReplicaItsShareOfTheOwnGpus) {
  struct Shape {
    int64_t encoder, pipeline, data;
    RankSplit split;
    double times;
  };
  auto workload = sixteen_gpus({small_encoder("image")});
  for (const auto& [encoder, pipeline, data, split, times] :
       {Shape{4, 3, 4, {1, 3, 0}, 1}, Shape{8, 2, 4, {2, 2, 0}, 1}, Shape{8, 4, 2, {4, 4, 0}, 1},
        Shape{4, 1, 12, {1, 1, 0}, 3}, Shape{12, 4, 1, {12, 4, 0}, 1}, Shape{4, 12, 1, {4, 12, 0}, 1}}) {
    auto c = disttrain_of(workload, encoder, pipeline, data);
    int64_t samples = 3;
    SCOPED_TRACE(to_text(c, workload));
    auto found = refusal(c, workload, samples * workload.gpus);
    ASSERT_FALSE(found) << found->text;
    auto job = Estimator(workload, samples).job(c);
    EXPECT_EQ(job.split, split);
    EXPECT_EQ(job.step.ranks, split.encoder + split.backbone);
    EXPECT_EQ(job.links.node_of_rank.size(), size_t(job.step.ranks));
    EXPECT_EQ(job.bytes.constant.size(), size_t(job.step.ranks));
    LayerKinds kinds(workload.modules[0].model);
    auto image = module_work(workload, 0, kinds, {1, encoder}, cost::Recompute::none);
    EXPECT_NEAR(job.costs.modules[0].forward, times * image.costs.forward, 1e-15);
    EXPECT_NEAR(job.costs.modules[0].backward, times * image.costs.backward, 1e-15);
    EXPECT_NEAR(job.bytes.item[0], times * image.kept, 1e-3);
    for (size_t rank = 0; rank < size_t(job.step.ranks); ++rank) {
      bool encodes = int64_t(rank) < split.encoder;
      EXPECT_EQ(constant_of(job, rank, "parameters of image") > 0, encodes) << rank;
      EXPECT_EQ(constant_of(job, rank, "parameters of backbone") > 0, !encodes) << rank;
    }
    auto schedule = make_schedule(job);
    EXPECT_TRUE(check(schedule).empty());
  }
}

TEST(Disttrain, PutsGeneratorsBehindTheBackbone) {
  auto workload = sixteen_gpus({small_encoder("image"), small_generator("drawing")});
  auto c = disttrain_of(workload, 4, 2, 2, 8);
  ASSERT_FALSE(refusal(c, workload, 32));
  auto job = Estimator(workload, 2).job(c);
  EXPECT_EQ(job.split, (RankSplit{2, 2, 4}));
  EXPECT_EQ(job.links.node_of_rank, (std::vector<int32_t>{0, 0, 1, 1, 2, 2, 2, 2}));
  for (size_t rank = 0; rank < 8; ++rank) {
    EXPECT_EQ(constant_of(job, rank, "parameters of image") > 0, rank < 2);
    EXPECT_EQ(constant_of(job, rank, "parameters of backbone") > 0, rank >= 2 && rank < 4);
    EXPECT_EQ(constant_of(job, rank, "parameters of drawing") > 0, rank >= 4);
  }
  auto outcome = Estimator(workload, 2).evaluate(c);
  EXPECT_EQ(outcome.memory_by_rank.size(), 8u);
}

// A whole node that cuts its items together takes less for each, and has fewer ranks.
TEST(Disttrain, CutsItemsOverItsOwnTensorGroups) {
  auto workload = sixteen_gpus({small_encoder("image")});
  auto c = disttrain_of(workload, 8, 2, 4);
  auto alone = Estimator(workload, 3).job(c);
  c.encoder_tensor = 2;
  ASSERT_FALSE(refusal(c, workload, 48));
  auto cut = Estimator(workload, 3).job(c);
  EXPECT_EQ(alone.split.encoder, 2);
  EXPECT_EQ(cut.split.encoder, 1);
  LayerKinds kinds(workload.modules[0].model);
  auto image = module_work(workload, 0, kinds, {2, 4}, cost::Recompute::none);
  EXPECT_NEAR(cut.costs.modules[0].forward, image.costs.forward, 1e-15);
  EXPECT_LT(constant_of(cut, 0, "parameters of image"), constant_of(alone, 0, "parameters of image"));
}

// The slowest rank's end may be a module's.
TEST(Disttrain, EndsWithTheModulesUpdateWhereThatIsLongest) {
  auto workload = sixteen_gpus({small_encoder("image", 40)});
  workload.backbone.frozen = true;
  auto c = disttrain_of(workload, 4, 3, 4);
  auto job = Estimator(workload, 3).job(c);
  LayerKinds kinds(workload.modules[0].model);
  auto image = module_work(workload, 0, kinds, {1, 4}, cost::Recompute::none);
  EXPECT_NEAR(job.sync, image.sync, 1e-15);
  EXPECT_NEAR(job.optimizer, image.optimizer, 1e-15);
  EXPECT_GT(image.optimizer, 0);
}

// What is shared out where all ranks hold it may be held whole on GPUs that hold nothing else.
TEST(Disttrain, MayHoldWholeWhatTheWorkloadShards) {
  auto workload = sixteen_gpus({small_encoder("image")});
  workload.modules[0].shard = 4;
  auto c = disttrain_of(workload, 8, 2, 4);
  ASSERT_FALSE(refusal(c, workload, 48));
  auto sharded = Estimator(workload, 3).job(c);
  c.own_whole = true;
  ASSERT_FALSE(refusal(c, workload, 48));
  auto whole = Estimator(workload, 3).job(c);
  EXPECT_GT(sharded.costs.modules[0].least_forward, 0);
  EXPECT_EQ(whole.costs.modules[0].least_forward, 0);
  EXPECT_NEAR(constant_of(whole, 0, "parameters of image"),
              4 * constant_of(sharded, 0, "parameters of image"), 1);
  EXPECT_EQ(constant_of(whole, 0, "gathered parameters of image"), 0);
  auto nested = c;
  nested.arrangement = Arrangement::nested;
  nested.encoder_gpus = 0;
  nested.parallel.data = 8;
  auto found = refusal(nested, workload, 48);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->kind, "shards");
  workload.search.arrangements = {Arrangement::disttrain};
  int64_t counts[2] = {0, 0};
  for (const auto& one : candidates(workload, 3, workload.search).legal) ++counts[one.own_whole];
  EXPECT_GT(counts[true], 0);
  EXPECT_GE(counts[true], counts[false]);
}

}  // namespace
}  // namespace bigmac
