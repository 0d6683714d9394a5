#include "bigmac/plan/make_job.h"

#include <algorithm>
#include <numeric>

#include "bigmac/plan/stages.h"
#include "bigmac/schedule/check.h"
#include "tests/plan/support.h"

// A configuration as the scheduler and the simulator take it, against figures added up by hand.
namespace bigmac {
namespace {

double sum_of(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

void expect_all_layers_once(const cost::Split& layers, const Workload& workload, int64_t stages) {
  EXPECT_EQ(int64_t(layers.size()), stages);
  EXPECT_EQ(std::accumulate(layers.begin(), layers.end(), int64_t{0}),
            int64_t(workload.backbone.model.layers.size()));
  for (int64_t count : layers) EXPECT_GE(count, 0);
}

BackboneCosts costs_of(const Workload& workload, const Configuration& c) {
  return backbone_costs(workload, LayerKinds(workload.backbone.model), c.parallel, c.microbatch, c.recompute);
}

TEST(Job, HasEveryLayerOfTheModelOnceInItsStages) {
  for (Base base : kAllBases)
    for (int64_t pipeline : {1, 2, 4, 8})
      for (auto recompute : {cost::Recompute::none, cost::Recompute::selective, cost::Recompute::full}) {
        auto workload = small_workload({}, 14);
        int64_t chunks = base == Base::one_f_one_b || base == Base::zb_h1 || base == Base::gpipe ? 1 : 2;
        auto c = configuration_of(workload, pipeline, chunks, base);
        c.recompute = recompute;
        SCOPED_TRACE(to_text(c, workload));
        ASSERT_FALSE(refusal(c, workload, 32));
        auto job = Estimator(workload, 4).job(c);
        auto costs = costs_of(workload, c);
        expect_all_layers_once(job.layers, workload, c.stages());
        double forward = 0, backward = 0, weight = 0, kept = 0, state = 0, working = 0;
        for (size_t layer = 0; layer < costs.times.size(); ++layer) {
          forward += costs.times[layer].forward;
          backward += costs.times[layer].backward();
          weight += costs.times[layer].weight;
          kept += costs.bytes[layer].kept;
          working = std::max(working, costs.bytes[layer].working);
          state += costs.states[layer].all();
        }
        EXPECT_NEAR(sum_of(job.costs.forward), forward, 1e-9 * forward);
        EXPECT_NEAR(sum_of(job.costs.backward), backward, 1e-9 * backward);
        EXPECT_NEAR(sum_of(job.costs.weight), weight, 1e-9 * weight);
        EXPECT_NEAR(sum_of(job.bytes.stage), kept, 1e-9 * kept);
        EXPECT_EQ(*std::max_element(job.bytes.stage_work.begin(), job.bytes.stage_work.end()), working);
        double held = 0;
        for (size_t rank = 0; rank < size_t(pipeline); ++rank) {
          held += constant_of(job, rank, "parameters") + constant_of(job, rank, "gradients") +
                  constant_of(job, rank, "optimizer");
          EXPECT_EQ(constant_of(job, rank, "reserved"), workload.reserved);
        }
        EXPECT_NEAR(held, state, 1e-9 * state);
        EXPECT_TRUE(check(make_schedule(job)).empty());
      }
}

// Stage 0 and the last stage of a V lie on one rank.
TEST(Job, PutsStatesOnTheRankOfTheirStage) {
  auto workload = small_workload();
  auto c = configuration_of(workload, 4, 2, Base::zb_v);
  c.layers = {1, 1, 1, 1, 1, 1, 1, 3};
  auto job = Estimator(workload, 4).job(c);
  auto costs = costs_of(workload, c);
  const auto& states = costs.states;
  EXPECT_NEAR(constant_of(job, 0, "parameters"),
              states[0].parameters + states[7].parameters + states[8].parameters + states[9].parameters, 1);
  EXPECT_NEAR(constant_of(job, 3, "parameters"), states[3].parameters + states[4].parameters, 1);
  c = configuration_of(workload, 4, 2, Base::interleaved);
  c.layers = {1, 1, 1, 1, 1, 1, 1, 3};
  job = Estimator(workload, 4).job(c);
  EXPECT_NEAR(constant_of(job, 0, "parameters"), states[0].parameters + states[4].parameters, 1);
}

TEST(Job, CountsParametersOfTheModelOnceOverItsStages) {
  auto workload = small_workload();
  // 2 tables of 16000 * 512, 8 layers of q, o: 2 * 512 * 512, k, v: 2 * 512 * 256, mlp: 3 * 512 * 1536, 2
  // norms, and the last norm.
  double parameters =
      2 * 16000.0 * 512 + 8 * (2 * 512.0 * 512 + 2 * 512.0 * 256 + 3 * 512.0 * 1536 + 2 * 512) + 512;
  for (int64_t pipeline : {1, 2, 4, 8}) {
    auto c = configuration_of(workload, pipeline);
    auto job = Estimator(workload, 4).job(c);
    double held = 0, gradients = 0, optimizer = 0;
    for (size_t rank = 0; rank < size_t(pipeline); ++rank) {
      held += constant_of(job, rank, "parameters of backbone");
      gradients += constant_of(job, rank, "gradients of backbone");
      optimizer += constant_of(job, rank, "optimizer states of backbone");
    }
    EXPECT_NEAR(held, 2 * parameters, 1);
    EXPECT_NEAR(gradients, 4 * parameters, 1);
    EXPECT_NEAR(optimizer, 12 * parameters / double(c.parallel.data), 1);
  }
}

// The reductions and the update are of the rank that takes longest over both.
TEST(Job, EndsWithTheSlowestRanksReductionAndUpdate) {
  auto workload = small_workload({small_encoder("image")});
  workload.overlap = 0.25;
  for (bool shard : {true, false}) {
    workload.shard_optimizer = shard;
    auto c = configuration_of(workload, 4);
    c.layers = {1, 4, 3, 2};
    auto costs = costs_of(workload, c);
    LayerKinds kinds(workload.modules[0].model);
    auto image = module_work(workload, 0, kinds, {1, 8}, cost::Recompute::none);
    double longest = 0, sync = 0, optimizer = 0;
    for (auto [begin, end] : {std::pair<size_t, size_t>{0, 1}, {1, 5}, {5, 8}, {8, 10}}) {
      double of_sync = image.sync, of_optimizer = image.optimizer;
      for (size_t layer = begin; layer < end; ++layer) {
        of_sync += costs.sync[layer];
        of_optimizer += costs.optimizer[layer];
      }
      of_sync *= 0.75;
      if (of_sync + of_optimizer <= longest) continue;
      longest = of_sync + of_optimizer;
      sync = of_sync;
      optimizer = of_optimizer;
    }
    Estimator estimator(workload, 4);
    auto job = estimator.job(c);
    EXPECT_NEAR(job.sync, sync, 1e-12);
    EXPECT_NEAR(job.optimizer, optimizer, 1e-12);
    EXPECT_GT(sync, 0);
    EXPECT_GT(optimizer, 0);
    auto outcome = estimator.evaluate(c);
    EXPECT_EQ(outcome.step, outcome.pipeline + job.sync + job.optimizer);
  }
}

TEST(Job, HidesNoMoreThanAllOfTheReduction) {
  auto workload = small_workload();
  workload.overlap = 1;
  auto job = Estimator(workload, 4).job(configuration_of(workload, 2));
  EXPECT_EQ(job.sync, 0);
  EXPECT_GT(job.optimizer, 0);
}

// An item's forward is that of the whole module on its tokens.
// What a step runs on is the batch's, not the configuration's.
TEST(Job, BalancesMegatronsStagesWithTheModulesInThem) {
  auto workload = small_workload({small_encoder("image", 12)}, 14);
  workload.modules[0].items.sigma = 0;
  auto c = configuration_of(workload, 4);
  Estimator estimator(workload, 4);
  auto even = estimator.job(c).layers;
  c.arrangement = Arrangement::megatron;
  auto job = estimator.job(c);
  expect_all_layers_once(job.layers, workload, 4);
  EXPECT_LT(job.layers.front(), even.front());
  // Of all splits, none has a shorter slowest stage with the items of a mean microbatch in the first one.
  double item = job.costs.modules[0].forward + job.costs.modules[0].backward;
  auto slowest_of = [&](const cost::Split& layers) {
    auto stages = stage_sums(costs_of(workload, c), layers);
    double slowest = 0;
    for (size_t s = 0; s < stages.size(); ++s)
      slowest =
          std::max(slowest, stages[s].time.forward + stages[s].time.backward() + (s == 0 ? 3 * item : 0));
    return slowest;
  };
  double slowest = slowest_of(job.layers);
  for (int64_t a = 0; a <= 16; ++a)
    for (int64_t b = 0; a + b <= 16; ++b)
      for (int64_t d = 0; a + b + d <= 16; ++d)
        EXPECT_GE(slowest_of({a, b, d, 16 - a - b - d}), slowest * (1 - 1e-9));
  // An encoder longer than a stage has the first one to itself.
  workload.modules[0].items.tokens = 4000;
  EXPECT_EQ(Estimator(workload, 4).job(c).layers.front(), 0);
  // A generator is in the last one.
  workload.modules = {small_generator("drawing", 8)};
  EXPECT_LT(Estimator(workload, 4).job(c).layers.back(), even.back());
}

TEST(Job, CountsTheModelsOwnFlops) {
  auto workload = small_workload();
  workload.tokens = 64;  // attention is small
  auto job = Estimator(workload, 4).job(configuration_of(workload, 2));
  double weights = 16000.0 * 512 + 8 * (2 * 512.0 * 512 + 2 * 512.0 * 256 + 3 * 512.0 * 1536);
  double tokens = 64.0 * 4 * 2;  // samples a GPU, GPUs a replica
  EXPECT_GT(job.flops, 6 * weights * tokens);
  EXPECT_LT(job.flops, 1.02 * 6 * weights * tokens);
  double attention =
      8 * 4.0 * 8 * 64 * (64 + 1) / 2 * 3;  // layers, 4 heads head_dim keys, forward and backward
  EXPECT_NEAR(job.flops, (6 * weights + attention) * tokens, 1e-6 * job.flops);
  // Recompute and cutting add none.
  auto c = configuration_of(workload, 2);
  c.parallel.tensor = 2;
  c.parallel.data = 2;
  c.recompute = cost::Recompute::full;
  EXPECT_NEAR(Estimator(workload, 4).job(c).flops, 2 * job.flops, 1e-9 * job.flops);
}

TEST(Job, SendsWhatABoundaryHolds) {
  auto workload = small_workload({small_encoder("image"), small_generator("drawing")});
  auto c = configuration_of(workload, 2);
  c.parallel.tensor = 2;
  c.parallel.data = 2;
  c.microbatch = 2;
  auto job = Estimator(workload, 4).job(c);
  EXPECT_EQ(job.bytes.boundary, 2 * 1024.0 * 512 * 2 / 2);  // samples, tokens, width, bf16, tensor
  EXPECT_EQ(job.links.stage_bytes, job.bytes.boundary);
  EXPECT_EQ(job.bytes.item_out[0], 256.0 / 4 * 512 * 2 / 2);  // merged patches
  EXPECT_EQ(job.bytes.item_out[1], 64.0 * 512 * 2 / 2);       // what the LLM says of a picture
  EXPECT_EQ(job.links.item_bytes, job.bytes.item_out);
}

TEST(Job, PutsRanksOnTheNodesOfTheirFirstGpu) {
  auto workload = small_workload({small_encoder("image"), small_generator("drawing")});
  workload.gpus = 16;
  EXPECT_EQ(Estimator(workload, 4).job(configuration_of(workload, 8)).links.node_of_rank,
            (std::vector<int32_t>{0, 0, 1, 1, 2, 2, 3, 3}));
  EXPECT_EQ(Estimator(workload, 4).job(configuration_of(workload, 4)).links.node_of_rank,
            (std::vector<int32_t>{0, 1, 2, 3}));
  // 4 encoder GPUs, 2 * 4 of the backbone, 4 generator GPUs: replica 0 has 1, 4, 1 ranks.
  auto c = disttrain_of(workload, 4, 2, 4, 4);
  EXPECT_EQ(Estimator(workload, 4).job(c).links.node_of_rank, (std::vector<int32_t>{0, 1, 2, 3}));
}

}  // namespace
}  // namespace bigmac
