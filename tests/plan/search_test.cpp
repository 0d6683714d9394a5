#include "bigmac/plan/search.h"

#include <algorithm>
#include <atomic>

#include "tests/plan/brute_force.h"

// What the search finds by its bounds is what simulating every candidate finds.
namespace bigmac {
namespace {

SearchOptions options_of(double tolerance, int threads) {
  SearchOptions options;
  options.best = kBest;
  options.tolerance = tolerance;
  options.passes = kPasses;
  options.threads = threads;
  return options;
}

std::string text_of(const std::vector<Outcome>& outcomes, const Workload& workload) {
  std::string text;
  for (const auto& o : outcomes)
    text += concat(o.step, " s ", o.memory / kMiB, " MiB ", to_text(o.configuration, workload), "\n");
  return text;
}

void expect_same(const std::vector<Outcome>& got, const std::vector<Outcome>& expected,
                 const Workload& workload) {
  ASSERT_EQ(got.size(), expected.size()) << "got\n"
                                         << text_of(got, workload) << "expected\n"
                                         << text_of(expected, workload);
  for (size_t n = 0; n < got.size(); ++n) {
    EXPECT_TRUE(got[n].configuration == expected[n].configuration)
        << n << ": " << to_text(got[n].configuration, workload) << " for "
        << to_text(expected[n].configuration, workload);
    EXPECT_EQ(got[n].step, expected[n].step) << n;
    EXPECT_EQ(got[n].memory, expected[n].memory) << n;
    EXPECT_EQ(got[n].memory_by_rank, expected[n].memory_by_rank) << n;
    EXPECT_EQ(got[n].mfu, expected[n].mfu) << n;
    EXPECT_TRUE(got[n].fits);
  }
}

void expect_near(const std::vector<Outcome>& frontier, const std::vector<Outcome>& all, double tolerance) {
  for (const auto& point : all)
    EXPECT_TRUE(std::any_of(frontier.begin(), frontier.end(),
                            [&](const Outcome& other) {
                              return other.step <= (1 + tolerance) * point.step &&
                                     other.memory <= (1 + tolerance) * point.memory;
                            }))
        << point.step << " s " << point.memory << " bytes";
}

void expect_frontier(const std::vector<Outcome>& frontier) {
  for (size_t n = 1; n < frontier.size(); ++n) {
    EXPECT_GE(frontier[n].step, frontier[n - 1].step);
    EXPECT_LT(frontier[n].memory, frontier[n - 1].memory);
  }
}

// Random workloads with at most `most` candidates.
struct Case {
  Workload workload;
  int64_t samples = 1;
};
Case case_of(uint64_t seed, int64_t most) {
  Workloads workloads(seed);
  Case out{workloads.draw(), workloads.pick<int64_t>({1, 2, 4})};
  auto& search = out.workload.search;
  if (!out.workload.modules.empty())
    for (Arrangement arrangement : kWithModules)
      if (workloads.chance(0.5)) search.arrangements.push_back(arrangement);
  if (workloads.chance(0.3)) search.bases = kAllBases;
  while (int64_t(candidates(out.workload, out.samples, search).legal.size()) > most) {
    auto narrowed = filled(search, out.workload);
    auto narrow = [&](auto& list) {
      if (list.size() > 1)
        list.erase(list.begin() + std::ptrdiff_t(workloads.pick<size_t>({0, list.size() - 1})));
    };
    switch (workloads.pick({0, 1, 2, 3, 4, 5, 6})) {
      case 0:
        narrow(narrowed.tensor);
        break;
      case 1:
        narrow(narrowed.pipeline);
        break;
      case 2:
        narrow(narrowed.chunks);
        break;
      case 3:
        narrow(narrowed.expert);
        break;
      case 4:
        narrow(narrowed.microbatch);
        break;
      case 5:
        narrow(narrowed.bases);
        break;
      default:
        out.workload.backbone.recompute = {workloads.pick({cost::Recompute::none, cost::Recompute::full})};
        for (auto& module : out.workload.modules)
          module.recompute.assign(1, workloads.pick({cost::Recompute::none, cost::Recompute::full}));
    }
    if (narrowed.arrangements == std::vector{Arrangement::llm_only}) narrowed.arrangements.clear();
    search = narrowed;
  }
  return out;
}

TEST(Search, FindsWhatSimulatingEveryCandidateFinds) {
  int64_t passed_over = 0, nothing_fits = 0, with_best = 0;
  for (uint64_t seed = 1; seed <= 60 && !HasFatalFailure(); ++seed) {
    auto [workload, samples] = case_of(seed, 400);
    SCOPED_TRACE(concat("seed ", seed, " samples a GPU ", samples));
    if (candidates(workload, samples, workload.search).legal.empty()) continue;
    BruteForce all(workload, samples);
    auto plan = search(workload, samples, options_of(0, 1));
    EXPECT_EQ(plan.samples_per_gpu, samples);
    EXPECT_EQ(plan.candidates, all.candidates());
    EXPECT_LE(plan.simulated, all.candidates());
    expect_same(plan.best, all.best(), workload);
    expect_same(plan.frontier, all.frontier(), workload);
    expect_frontier(plan.frontier);
    passed_over += plan.candidates - plan.simulated;
    with_best += !plan.best.empty();
    EXPECT_EQ(plan.least_memory.has_value(), plan.best.empty() && all.without_table() < all.candidates());
    if (!plan.least_memory) continue;
    ++nothing_fits;
    EXPECT_FALSE(plan.least_memory->fits);
    EXPECT_GE(plan.least_memory->memory, all.least_memory());
    EXPECT_FALSE(plan.out_of_memory_text.empty());
  }
  EXPECT_GT(passed_over, 1000);
  EXPECT_GT(with_best, 20);
  EXPECT_GT(nothing_fits, 2);
}

TEST(Search, KeepsTheFrontierWithinItsTolerance) {
  constexpr double kTolerance = 0.03;
  int64_t fewer = 0;
  for (uint64_t seed = 100; seed < 130; ++seed) {
    auto [workload, samples] = case_of(seed, 300);
    std::erase(workload.search.arrangements, Arrangement::nested_fill);  // refining moves its points
    if (workload.search.arrangements.empty() && !workload.modules.empty())
      workload.search.arrangements = {Arrangement::nested, Arrangement::megatron};
    SCOPED_TRACE(concat("seed ", seed, " samples a GPU ", samples));
    if (candidates(workload, samples, workload.search).legal.empty()) continue;
    BruteForce all(workload, samples);
    auto plan = search(workload, samples, options_of(kTolerance, 2));
    expect_same(plan.best, all.best(), workload);
    expect_near(plan.frontier, all.frontier(), kTolerance);
    expect_frontier(plan.frontier);
    fewer += plan.simulated < search(workload, samples, options_of(0, 2)).simulated;
  }
  EXPECT_GT(fewer, 5);
}

void expect_same_plan(const Plan& got, const Plan& expected, const Workload& workload) {
  expect_same(got.best, expected.best, workload);
  expect_same(got.frontier, expected.frontier, workload);
  EXPECT_EQ(got.simulated, expected.simulated);
  EXPECT_EQ(got.refused, expected.refused);
  EXPECT_EQ(got.out_of_memory, expected.out_of_memory);
  EXPECT_EQ(got.out_of_memory_text, expected.out_of_memory_text);
  EXPECT_EQ(got.least_memory.has_value(), expected.least_memory.has_value());
}

TEST(Search, FindsTheSameWithAnyNumberOfThreadsAndEveryTime) {
  for (uint64_t seed = 200; seed < 220; ++seed) {
    auto [workload, samples] = case_of(seed, 1000);
    SCOPED_TRACE(concat("seed ", seed, " samples a GPU ", samples));
    if (candidates(workload, samples, workload.search).legal.empty()) continue;
    for (double tolerance : {0.0, 0.03}) {
      auto one = search(workload, samples, options_of(tolerance, 1));
      for (int threads : {1, 2, 4, 4})
        expect_same_plan(search(workload, samples, options_of(tolerance, threads)), one, workload);
    }
  }
}

TEST(Search, OfTheWholeSmallWorkloadIsThatOfSimulatingEverything) {
  auto workload = small_workload({small_encoder("image")});
  workload.search.tensor = {1, 2};
  workload.search.microbatch = {1, 2};
  workload.backbone.recompute = {cost::Recompute::none, cost::Recompute::full};
  workload.modules[0].recompute = workload.backbone.recompute;
  BruteForce all(workload, 4);
  for (double tolerance : {0.0, 0.03}) {
    auto plan = search(workload, 4, options_of(tolerance, 2));
    expect_same(plan.best, all.best(), workload);
    if (tolerance == 0) expect_same(plan.frontier, all.frontier(), workload);
    EXPECT_EQ(plan.best.size(), size_t(kBest));
  }
  // More than a round of the search takes.
  auto options = options_of(0, 2);
  options.best = 150;
  options.frontier = false;
  auto plan = search(workload, 4, options);
  expect_same(plan.best, all.best(150), workload);
  EXPECT_EQ(plan.best.size(), 150u);
  EXPECT_LT(plan.simulated, plan.candidates);
}

TEST(Search, SimulatesLessWhereNoFrontierIsWanted) {
  auto workload = small_workload({small_encoder("image")});
  workload.search.arrangements = {Arrangement::nested, Arrangement::megatron};
  auto options = options_of(0, 1);
  auto with = search(workload, 4, options);
  options.frontier = false;
  options.best = 1;
  auto without = search(workload, 4, options);
  EXPECT_LT(without.simulated, with.simulated);
  ASSERT_EQ(without.best.size(), 1u);
  EXPECT_TRUE(without.best[0].configuration == with.best[0].configuration);
}

TEST(Search, SaysWhyNothingIsLegal) {
  auto workload = small_workload();
  workload.search.pipeline = {3, 16};
  workload.search.tensor = {8};
  auto error = error_of([&] { search(workload, 4, {.progress = {}}); });
  expect_told(error, {"[plan] no configuration of 'small' is legal", "TP 8 * PP 3", "the cluster has 8"});
  expect_told(error_of([&] { search(small_workload(), 0, {.progress = {}}); }),
              {"[plan]", "samples a GPU", "got 0"});
  expect_told(error_of([&] { search(small_workload(), 4, {.best = 0, .progress = {}}); }),
              {"[plan]", "best", "got 0"});
}

TEST(Search, SaysWhatComesNearestWhereNothingFits) {
  for (double memory : {70.0, 150.0, 175.0}) {
    auto workload = small_workload({small_encoder("image")});
    workload.memory = memory * kMiB;
    auto plan = search(workload, 4, options_of(0.03, 2));
    EXPECT_TRUE(plan.best.empty() && plan.frontier.empty());
    ASSERT_TRUE(plan.least_memory) << memory;
    EXPECT_FALSE(plan.least_memory->fits);
    EXPECT_GT(plan.least_memory->memory, workload.memory);
    EXPECT_EQ(plan.out_of_memory.count, plan.candidates);
    EXPECT_FALSE(plan.out_of_memory.example.empty());
    expect_told(plan.out_of_memory_text,
                {"out of memory on rank", "of " + bytes_text(workload.memory), "reserved"});
  }
}

TEST(Search, ReportsProgressUpToAllCandidates) {
  auto workload = small_workload({small_encoder("image")});
  auto options = options_of(0.03, 2);
  std::vector<int64_t> settled;
  std::atomic<int> inside{0};
  int64_t of = 0;
  options.progress = [&](int64_t done, int64_t all) {
    EXPECT_EQ(++inside, 1);
    settled.push_back(done);
    of = all;
    --inside;
  };
  auto plan = search(workload, 4, options);
  ASSERT_FALSE(settled.empty());
  EXPECT_EQ(of, plan.candidates);
  EXPECT_TRUE(std::is_sorted(settled.begin(), settled.end()));
  EXPECT_GT(settled.back(), plan.candidates - 64);
  EXPECT_LE(settled.back(), plan.candidates);
}

}  // namespace
}  // namespace bigmac
