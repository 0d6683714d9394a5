#include <algorithm>
#include <cstdlib>

#include "tests/plan/support.h"

// No outcome is below its bounds: what may be passed over without being simulated hangs on it.
namespace bigmac {
namespace {

constexpr double kRounding = 1e-9;

struct Looked {
  int64_t configurations = 0, shifted = 0, out_of_memory = 0;
  double closest_step = 0, closest_memory = 0;  // bound over outcome
};

// All legal configurations, or some of them where there are more than `most`.
Looked look(const Workload& workload, int64_t samples, Search search, size_t most, const std::string& where) {
  if (search.arrangements.empty())
    search.arrangements = workload.modules.empty() ? std::vector{Arrangement::llm_only} : kWithModules;
  if (search.bases.empty()) search.bases = kAllBases;
  auto legal = candidates(workload, samples, search).legal;
  std::mt19937_64 random(workload.seed);
  std::shuffle(legal.begin(), legal.end(), random);
  if (legal.size() > most) legal.resize(most);
  Estimator estimator(workload, samples);
  Looked looked;
  for (const auto& configuration : legal) {
    auto least = estimator.least(configuration);
    Outcome outcome;
    try {
      outcome = estimator.evaluate(configuration, 1);
    } catch (const InvalidInput&) {
      continue;
    }
    ++looked.configurations;
    looked.out_of_memory += !outcome.fits;
    Configuration given = configuration;
    auto text = where + ", " + to_text(given, workload);
    EXPECT_LE(least.step, outcome.step * (1 + kRounding)) << text;
    EXPECT_LE(least.memory, outcome.memory * (1 + kRounding)) << text;
    EXPECT_GT(least.step, 0) << text;
    EXPECT_GT(least.memory, 0) << text;
    looked.closest_step = std::max(looked.closest_step, least.step / outcome.step);
    looked.closest_memory = std::max(looked.closest_memory, least.memory / outcome.memory);
    if (::testing::Test::HasFailure()) return looked;
  }
  return looked;
}

TEST(Bounds, HoldForRandomWorkloadsInEveryArrangementAndBase) {
  int64_t configurations = 0, out_of_memory = 0;
  for (uint64_t seed = 1; seed <= (getenv("BIGMAC_FUZZ_CASES") ? std::stoul(getenv("BIGMAC_FUZZ_CASES")) : 150) && !HasFailure(); ++seed) {
    Workloads workloads(seed);
    Workload workload = workloads.draw();
    int64_t samples = workloads.pick<int64_t>({1, 2, 4, 6});
    auto looked = look(workload, samples, {}, 120, concat("seed ", seed, " samples ", samples));
    configurations += looked.configurations;
    out_of_memory += looked.out_of_memory;
  }
  EXPECT_GT(configurations, 5000);
  EXPECT_GT(out_of_memory, 500);
}

// What a layer's shift to another stage does to both.
TEST(Bounds, HoldWhereBalancedLayersDoNotFit) {
  int64_t looked_at = 0, shifted = 0, rescued = 0, missed = 0;
  for (uint64_t seed = 1; seed <= 60 && !HasFailure(); ++seed) {
    Workloads workloads(seed);
    Workload workload = workloads.draw();
    workload.memory = 1e15;
    int64_t samples = workloads.pick<int64_t>({1, 2, 4, 6});
    Search search{.chunks = {1}, .bases = kAllBases};
    if (!workload.modules.empty()) search.arrangements = kWithModules;
    auto legal = candidates(workload, samples, search).legal;
    std::mt19937_64 random(seed);
    std::shuffle(legal.begin(), legal.end(), random);
    if (legal.size() > 40) legal.resize(40);
    for (const auto& configuration : legal) {
      if (configuration.stages() == 1 || !can_shift_layers(configuration)) continue;
      Outcome balanced;
      try {
        balanced = Estimator(workload, samples).evaluate(configuration, 1);
      } catch (const InvalidInput&) {
        continue;
      }
      Workload tight = workload;
      tight.memory = balanced.memory * workloads.real(0.6, 1);
      Estimator estimator(tight, samples);
      auto least = estimator.least(configuration);
      auto outcome = estimator.evaluate(configuration, 1);
      ++looked_at;
      shifted += outcome.configuration.layers != balanced.configuration.layers;
      rescued += outcome.fits;
      auto text = concat("seed ", seed, " samples ", samples, " memory ", tight.memory, ", ",
                         to_text(configuration, tight));
      EXPECT_LE(least.step, outcome.step * (1 + kRounding)) << text;
      EXPECT_LE(least.memory, outcome.memory * (1 + kRounding)) << text;
      EXPECT_LE(outcome.memory, balanced.memory) << text;
      if (!outcome.fits) {
        auto layers = int64_t(workload.backbone.model.layers.size()), stages = configuration.stages();
        cost::Split split(size_t(stages), 1);
        split[0] = 1;
        bool found = false; Outcome best; best.memory=1e30;
        std::function<void(int64_t, int64_t)> go = [&](int64_t s, int64_t left) {
          if (s == stages - 1) { split[size_t(s)] = left; auto c = configuration; c.layers = split; auto o = estimator.evaluate(c, 1); if (o.memory < best.memory) best = o; if (o.fits) found = true; return; }
          for (int64_t n = 1; n <= left - (stages - 1 - s); ++n) { split[size_t(s)] = n; go(s + 1, left - n); }
        };
        go(0, layers);
        if (found) { ++missed; 
          std::cout << text << " balanced " << balanced.memory/1e6 << " got " << outcome.memory/1e6 << " could " << best.memory/1e6 << " least " << least.memory/1e6; for (auto n : balanced.configuration.layers) std::cout << " " << n; std::cout << " ->"; for (auto n : outcome.configuration.layers) std::cout << " " << n; std::cout << " ->"; for (auto n : best.configuration.layers) std::cout << " " << n; std::cout << std::endl; }
      }
    }
  }
  std::cout << looked_at << " " << shifted << " " << rescued << " " << missed << std::endl;
  EXPECT_GT(shifted, 300);
  EXPECT_GT(rescued, 100);
}

}  // namespace
}  // namespace bigmac
