#include <algorithm>
#include <numeric>

#include "bigmac/plan/stages.h"
#include "bigmac/simulate/simulate.h"
#include "tests/plan/support.h"

// What a configuration comes to: its figures are those of its job's table, simulated.
namespace bigmac {
namespace {

std::vector<Configuration> some_configurations(const Workload& workload, int64_t samples, size_t count) {
  Search search;
  search.arrangements = workload.modules.empty() ? std::vector{Arrangement::llm_only} : kWithModules;
  search.bases = kAllBases;
  auto legal = candidates(workload, samples, search).legal;
  std::shuffle(legal.begin(), legal.end(), std::mt19937_64(workload.seed));
  if (legal.size() > count) legal.resize(count);
  return legal;
}

TEST(Outcome, IsWhatItsOwnTableComesTo) {
  int64_t looked_at = 0;
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    Workloads workloads(seed);
    auto workload = workloads.draw();
    Estimator estimator(workload, 4);
    for (const auto& c : some_configurations(workload, 4, 15)) {
      SCOPED_TRACE(concat("seed ", seed, ", ", to_text(c, workload)));
      Outcome outcome;
      try {
        outcome = estimator.evaluate(c);
      } catch (const InvalidInput&) {
        continue;
      }
      ++looked_at;
      const auto& given = outcome.configuration;
      auto layers = given.layers;
      EXPECT_EQ(int64_t(layers.size()), c.stages());
      EXPECT_EQ(std::accumulate(layers.begin(), layers.end(), int64_t{0}),
                int64_t(workload.backbone.model.layers.size()));
      auto job = estimator.job(given);
      auto schedule = make_schedule(job);
      auto timeline = simulate(schedule, job.costs, job.links);
      EXPECT_EQ(outcome.microbatches, job.step.microbatches);
      EXPECT_EQ(outcome.microbatches * c.microbatch * c.parallel.data, 4 * workload.gpus);
      EXPECT_EQ(outcome.pipeline, timeline.length());
      EXPECT_EQ(outcome.sync, job.sync);
      EXPECT_EQ(outcome.optimizer, job.optimizer);
      EXPECT_NEAR(outcome.step, outcome.pipeline + outcome.sync + outcome.optimizer, 1e-12);
      double busy = 0;
      for (const auto& time : rank_times(timeline)) busy += time.busy;
      double total = double(schedule.ranks()) * outcome.pipeline;
      EXPECT_NEAR(outcome.bubble + outcome.transfer + outcome.order + busy / total, 1, 1e-9);
      auto peaks = peak_memory(schedule, timeline, job.bytes);
      ASSERT_EQ(outcome.memory_by_rank.size(), peaks.size());
      double most = 0;
      for (size_t rank = 0; rank < peaks.size(); ++rank) {
        EXPECT_EQ(outcome.memory_by_rank[rank], peaks[rank].peak);
        double constant = 0;
        for (const auto& holder : job.bytes.constant[rank]) constant += holder.bytes;
        EXPECT_GE(peaks[rank].peak, constant * (1 - 1e-12));
        most = std::max(most, peaks[rank].peak);
      }
      EXPECT_EQ(outcome.memory, most);
      EXPECT_EQ(outcome.fits, most <= workload.memory);
      EXPECT_NEAR(outcome.tokens_per_second, 4 * workload.tokens / outcome.step, 1e-6);
      EXPECT_NEAR(outcome.mfu,
                  job.flops * double(c.parallel.data) /
                      (outcome.step * double(workload.gpus) * workload.hardware.peak),
                  1e-12);
      EXPECT_GT(outcome.mfu, 0);
      EXPECT_LT(outcome.mfu, 1);
    }
  }
  EXPECT_GT(looked_at, 200);
}

TEST(Outcome, IsTheSameWhateverWasLookedAtBefore) {
  Workloads workloads(7);
  for (int n = 0; n < 6; ++n) {
    auto workload = workloads.draw();
    Estimator one(workload, 2);
    for (const auto& c : some_configurations(workload, 2, 25)) try {
        auto outcome = one.evaluate(c, 2);
        auto alone = Estimator(workload, 2).evaluate(c, 2);
        EXPECT_EQ(outcome.step, alone.step) << to_text(c, workload);
        EXPECT_EQ(outcome.memory_by_rank, alone.memory_by_rank) << to_text(c, workload);
        EXPECT_TRUE(outcome.configuration == alone.configuration) << to_text(c, workload);
        auto least = one.least(c), least_alone = Estimator(workload, 2).least(c);
        EXPECT_EQ(least.step, least_alone.step);
        EXPECT_EQ(least.memory, least_alone.memory);
      } catch (const InvalidInput&) {
      }
  }
}

// 1F1B on one rank is its work, one layer after the other.
TEST(Outcome, OfOneRankIsTheSumOfItsWork) {
  auto workload = small_workload();
  workload.gpus = 1;
  auto c = configuration_of(workload, 1);
  auto outcome = Estimator(workload, 6).evaluate(c);
  double seconds = 0;
  for (const auto& layer : workload.backbone.model.layers) {
    bool is_first = &layer == &workload.backbone.model.layers.front();
    auto time = cost::layer_time(layer, {.count = 1, .tokens = 1024}, {}, {.passes_gradient = !is_first},
                                 workload.hardware, workload.backbone.efficiency);
    seconds += 6 * (time.forward + time.backward());
  }
  EXPECT_NEAR(outcome.pipeline, seconds, 1e-9 * seconds);
  EXPECT_EQ(outcome.sync, 0);
  EXPECT_NEAR(outcome.bubble, 0, 1e-9);
  EXPECT_EQ(outcome.microbatches, 6);
}

// 4 equal stages, 8 microbatches and free links: (M + P - 1) (F + B), bubble (P - 1) / (M + P - 1).
TEST(Outcome, HasTheBubbleOfOneForwardOneBackward) {
  auto workload = small_workload();
  workload.gpus = 4;
  workload.hardware.inside = {.latency = 0, .bandwidth = 1e30};
  auto layer = workload.backbone.model.layers[1];
  workload.backbone.model.layers = {layer, layer, layer, layer, layer, layer, layer, layer};
  workload.modules = {
      small_encoder("image")};  // so that the first stage's backward is as long as the others'
  workload.modules[0].items.empty = 0.999999;
  auto c = configuration_of(workload, 4);
  auto outcome = Estimator(workload, 2).evaluate(c);
  EXPECT_EQ(outcome.configuration.layers, (cost::Split{2, 2, 2, 2}));
  auto time = cost::layer_time(layer, {.count = 1, .tokens = 1024}, {}, {}, workload.hardware,
                               workload.backbone.efficiency);
  EXPECT_NEAR(outcome.pipeline, 11 * 2 * (time.forward + time.backward()), 1e-9);
  EXPECT_NEAR(outcome.bubble, 3.0 / 11, 1e-9);
}

TEST(Outcome, NamesTheRankThatHoldsMost) {
  auto workload = small_workload({small_encoder("image")});
  auto c = configuration_of(workload, 4);
  c.layers = {1, 5, 2, 2};
  auto outcome = Estimator(workload, 4).evaluate(c);
  EXPECT_EQ(Estimator(workload, 4).explain_memory(c), "");
  workload.memory = outcome.memory * 0.9;
  Estimator estimator(workload, 4);
  EXPECT_FALSE(estimator.evaluate(c).fits);
  auto most = std::max_element(outcome.memory_by_rank.begin(), outcome.memory_by_rank.end());
  auto rank = most - outcome.memory_by_rank.begin();
  EXPECT_EQ(rank, 1);
  expect_told(estimator.explain_memory(c),
              {concat("out of memory on rank ", rank), bytes_text(outcome.memory),
               bytes_text(workload.memory), "of backbone"});
  auto fullest = estimator.fullest_rank(c);
  EXPECT_EQ(fullest.rank, rank);
  EXPECT_EQ(fullest.memory.peak, outcome.memory);
  double held = 0;
  for (const auto& holder : fullest.holders) held += holder.bytes;
  EXPECT_NEAR(held, outcome.memory, 1e-9 * held);
}

// Rank 0 holds four microbatches in flight and rank 3 one: with memory for less than the balanced first stage
// needs, layers move to later ones.
TEST(Outcome, MovesLayersWhereBalancedOnesDoNotFit) {
  auto workload = small_workload({}, 14);
  workload.tokens = 8192;
  workload.gpus = 4;
  auto c = configuration_of(workload, 4);
  auto balanced = Estimator(workload, 8).evaluate(c);
  workload.memory = balanced.memory * 0.85;
  auto shifted = Estimator(workload, 8).evaluate(c);
  EXPECT_TRUE(shifted.fits);
  EXPECT_LE(shifted.memory, workload.memory);
  EXPECT_LT(shifted.configuration.layers.front(), balanced.configuration.layers.front());
  EXPECT_EQ(
      std::accumulate(shifted.configuration.layers.begin(), shifted.configuration.layers.end(), int64_t{0}),
      16);
  EXPECT_GT(shifted.step, balanced.step);
  // None of those that fit is much faster.
  double fastest = shifted.step;
  for (int64_t a = 1; a <= 13; ++a)
    for (int64_t b = 1; a + b <= 14; ++b)
      for (int64_t d = 1; a + b + d <= 15; ++d) {
        auto given = c;
        given.layers = {a, b, d, 16 - a - b - d};
        auto outcome = Estimator(workload, 8).evaluate(given);
        if (outcome.fits) fastest = std::min(fastest, outcome.step);
      }
  EXPECT_LE(shifted.step, 1.02 * fastest);
  // Named layers stay as they are, and what fits nowhere is told as it is balanced.
  c.layers = balanced.configuration.layers;
  auto given = Estimator(workload, 8).evaluate(c);
  EXPECT_FALSE(given.fits);
  EXPECT_EQ(given.configuration.layers, c.layers);
  c.layers.clear();
  workload.memory = balanced.memory * 0.1;
  auto none = Estimator(workload, 8).evaluate(c);
  EXPECT_FALSE(none.fits);
  EXPECT_EQ(none.configuration.layers, balanced.configuration.layers);
}

TEST(Outcome, TakesLessMemoryWithMoreRecompute) {
  auto workload = small_workload({small_encoder("image")});
  auto c = configuration_of(workload, 2);
  std::vector<Outcome> outcomes;
  for (auto level : {cost::Recompute::none, cost::Recompute::selective, cost::Recompute::full}) {
    c.recompute = level;
    c.module_recompute = {level};
    outcomes.push_back(Estimator(workload, 4).evaluate(c));
  }
  EXPECT_GT(outcomes[0].memory, outcomes[1].memory);
  EXPECT_GT(outcomes[1].memory, outcomes[2].memory);
  EXPECT_LT(outcomes[0].step, outcomes[1].step);
  EXPECT_LT(outcomes[1].step, outcomes[2].step);
}

TEST(Outcome, RefusesABatchThatIsNotPositive) {
  for (int64_t samples : {0, -1})
    expect_told(error_of([&] { Estimator(small_workload(), samples); }), {"[plan]", concat("got ", samples)});
}

}  // namespace
}  // namespace bigmac
