#include "bigmac/plan/compare.h"

#include "tests/plan/support.h"

namespace bigmac {
namespace {

Workload compared_workload() {
  auto workload = small_workload({small_encoder("image", 8)});
  workload.search.tensor = {1, 2};
  workload.search.pipeline = {2, 4};
  workload.search.microbatch = {1};
  return workload;
}

TEST(Compare, TakesEachSystemInItsOwnBestConfiguration) {
  auto workload = compared_workload();
  workload.memory = 450 * kMiB;
  auto comparison = compare(workload, kWithModules, {2, 8}, 2, {});
  EXPECT_EQ(comparison.systems, kWithModules);
  ASSERT_EQ(comparison.batches.size(), 2u);
  int64_t fits = 0;
  for (const auto& batch : comparison.batches) {
    ASSERT_EQ(batch.systems.size(), kWithModules.size());
    for (size_t n = 0; n < kWithModules.size(); ++n) {
      const auto& system = batch.systems[n];
      EXPECT_EQ(system.system, kWithModules[n]);
      auto restricted = workload;
      restricted.search.arrangements = {kWithModules[n]};
      restricted.search.bases = {Base::one_f_one_b, Base::interleaved};
      SearchOptions options;
      options.best = 8;  // as many as compare refines of nested-fill
      options.frontier = false;
      auto plan = search(restricted, batch.samples_per_gpu, options);
      ASSERT_EQ(system.best.has_value(), !plan.best.empty()) << name(system.system);
      EXPECT_EQ(system.why_not.empty(), system.best.has_value());
      EXPECT_EQ(system.least_memory.has_value(), !system.best.has_value());
      if (!system.best) continue;
      ++fits;
      EXPECT_TRUE(system.best->configuration == plan.best[0].configuration);
      EXPECT_EQ(system.best->step, plan.best[0].step);
      EXPECT_EQ(system.best->memory, plan.best[0].memory);
      EXPECT_EQ(system.best->configuration.arrangement, system.system);
      // No configuration of it is shorter.
      if (system.system == Arrangement::nested_fill) continue;
      Estimator estimator(restricted, batch.samples_per_gpu);
      for (const auto& c : candidates(restricted, batch.samples_per_gpu, restricted.search).legal) {
        auto outcome = estimator.evaluate(c);
        EXPECT_TRUE(!outcome.fits || outcome.step >= system.best->step) << to_text(c, workload);
      }
    }
  }
  EXPECT_GT(fits, 8);
}

TEST(Compare, HasNestedFillNeverLongerThanNested) {
  auto workload = compared_workload();
  auto comparison = compare(workload, {Arrangement::nested, Arrangement::nested_fill}, {2, 4, 8}, 2, {});
  for (const auto& batch : comparison.batches)
    EXPECT_LE(batch.systems[1].best->step, batch.systems[0].best->step * (1 + 1e-9));
}

TEST(Compare, SaysWhySystemsHaveNoConfiguration) {
  auto workload = compared_workload();
  workload.memory = 100 * kMiB;
  auto too_small = compare(workload, kWithModules, {2}, 1, {});
  for (const auto& system : too_small.batches[0].systems) {
    EXPECT_FALSE(system.best);
    EXPECT_TRUE(system.is_legal);
    ASSERT_TRUE(system.least_memory) << name(system.system);
    expect_told(system.why_not,
                {"out of memory on rank", bytes_text(system.least_memory->memory) + " of 100 MiB"});
  }
  workload = compared_workload();
  workload.search.bases = {Base::interleaved};
  workload.search.chunks = {2};
  auto comparison = compare(workload, {Arrangement::disttrain, Arrangement::nested}, {2}, 1, {});
  const auto& disttrain = comparison.batches[0].systems[0];
  EXPECT_FALSE(disttrain.best || disttrain.least_memory || disttrain.is_legal);
  expect_told(disttrain.why_not, {"[plan] no configuration of 'small' is legal"});
  EXPECT_TRUE(comparison.batches[0].systems[1].best);
}

TEST(Compare, ReportsItsProgress) {
  std::vector<int64_t> done;
  compare(compared_workload(), {Arrangement::nested, Arrangement::megatron}, {1, 2}, 1,
          [&](int64_t so_far, int64_t all) {
            done.push_back(so_far);
            EXPECT_EQ(all, 4);
          });
  EXPECT_EQ(done, (std::vector<int64_t>{1, 2, 3, 4}));
}

TEST(Compare, TakesTheSystemsThatTheSearchNames) {
  EXPECT_EQ(compared_systems(small_workload()), std::vector{Arrangement::llm_only});
  auto workload = compared_workload();
  EXPECT_EQ(compared_systems(workload),
            (std::vector{Arrangement::megatron, Arrangement::disttrain, Arrangement::three_phase,
                         Arrangement::optimus, Arrangement::nested, Arrangement::nested_fill}));
  workload.search.arrangements = {Arrangement::nested_fill, Arrangement::optimus};
  EXPECT_EQ(compared_systems(workload), (std::vector{Arrangement::optimus, Arrangement::nested_fill}));
}

// What a system holds of a longer step, in one configuration.
TEST(Compare, HoldsNoMoreOfALongerStepWhereEncodersAreNested) {
  auto workload = small_workload({small_encoder("image", 8)});
  workload.modules[0].items.sigma = 0;
  auto memory_of = [&](Arrangement arrangement, int64_t samples) {
    auto c = configuration_of(workload, 4);
    if (arrangement == Arrangement::disttrain) c = disttrain_of(workload, 4, 2, 2);
    c.arrangement = arrangement;
    return Estimator(workload, samples).evaluate(c, 2).memory;
  };
  for (Arrangement bounded :
       {Arrangement::nested, Arrangement::nested_fill, Arrangement::megatron, Arrangement::disttrain}) {
    // A W + 1st unit fits between: nested-fill reaches its limit only in longer steps.
    double small = memory_of(bounded, 16), large = memory_of(bounded, 128);
    EXPECT_LE(large, small * (1 + 1e-9)) << name(bounded);
  }
  for (Arrangement grows : {Arrangement::three_phase, Arrangement::optimus}) {
    double last = memory_of(grows, 4);
    for (int64_t samples : {8, 16, 32, 64}) {
      double now = memory_of(grows, samples);
      EXPECT_GT(now, last) << name(grows) << " " << samples;
      last = now;
    }
    // Every item's activations, where all of them are held.
    if (grows != Arrangement::three_phase) continue;
    double item = Estimator(workload, 4).job(configuration_of(workload, 4)).bytes.item[0];
    EXPECT_NEAR(memory_of(grows, 64) - memory_of(grows, 32), 32 * 2 * 3 * item / 2, 0.2 * 96 * item);
  }
}

}  // namespace
}  // namespace bigmac
