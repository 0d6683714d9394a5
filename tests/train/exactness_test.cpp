#include <gtest/gtest.h>

#include <ATen/Parallel.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <set>

#include "bigmac/runtime/threads_transport.h"
#include "tests/support/roles.h"
#include "tests/train/exactness_cases.h"

// Every parameter's gradient of a step equals that of the plain loop on one rank, in double precision.
// `make test` runs cases in which every two choices meet; `make test-all` (BIGMAC_ALL=1) runs all.
namespace bigmac::train {
namespace {

constexpr double kTolerance = 1e-10;

std::vector<Case> cases() {
  return std::getenv("BIGMAC_ALL") ? all_cases() : pairwise_cases();
}

const PlainResult& plain_of(const Case& c) {
  static std::map<std::string, PlainResult> results;
  auto [place, added] = results.try_emplace(plain_key(c));
  if (added) place->second = run_plainly(system_of(c), batches_of(c)(0), options_of(c));
  return place->second;
}

// Why a run is not exact; empty where it is.
std::string complaint(const Case& c, const Result& got) {
  const auto& plain = plain_of(c);
  auto far = distance(got.gradients, plain.gradients);
  if (!(far.most < kTolerance))
    return concat(describe(c), ": the gradient of ", far.name, " is off by ", far.most);
  double loss = std::abs(got.figures.loss - plain.loss) / std::max(1.0, std::abs(plain.loss));
  if (!(loss < kTolerance)) return concat(describe(c), ": the loss is off by ", loss);
  return "";
}

Result run_rank(const Case& c, Transport& world) {
  at::set_num_threads(1);
  auto system = system_of(c);
  Trainer trainer(system, batches_of(c), options_of(c), world);
  auto figures = trainer.compute_gradients(0);
  return {figures, trainer.gather_gradients()};
}

std::string identifier(int system) {
  auto text = system_kinds()[size_t(system)];
  std::replace(text.begin(), text.end(), ' ', '_');
  return text;
}

class InThreads : public testing::TestWithParam<int> {};

TEST_P(InThreads, EveryCaseIsExact) {
  int run = 0;
  for (const auto& c : cases()) {
    if (in_processes(c) || c[kSystem] != GetParam()) continue;
    SCOPED_TRACE(describe(c));
    Result result;
    ASSERT_NO_THROW(run_threads(ranks_of(c), [&](Transport& world) {
      auto own = run_rank(c, world);
      if (world.rank() == 0) result = std::move(own);
    }));
    EXPECT_EQ(complaint(c, result), "");
    ++run;
  }
  RecordProperty("cases", run);
  EXPECT_GT(run, 0);
}

INSTANTIATE_TEST_SUITE_P(Exactness, InThreads, testing::Range(0, 5),
                         [](const auto& system) { return identifier(system.param); });

bool belongs(const Case& c, int system, int ranks) {
  return in_processes(c) && c[kSystem] == system && ranks_of(c) == ranks;
}

const bool added = roles::add("exactness", [](Transport& world, const std::string& folder) {
  int system = std::stoi(std::filesystem::path(folder).filename());
  for (const auto& c : cases()) {
    if (!belongs(c, system, world.size())) continue;
    auto own = run_rank(c, world);
    if (world.rank() != 0) continue;
    if (auto text = complaint(c, own); !text.empty()) throw Failure(text);
  }
});

class InProcesses : public testing::TestWithParam<std::tuple<int, int>> {};

TEST_P(InProcesses, EveryCaseIsExact) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "ThreadSanitizer does not see into Gloo, which is not instrumented";
#endif
  auto [system, ranks] = GetParam();
  auto all = cases();
  auto run = std::count_if(all.begin(), all.end(), [&](const Case& c) { return belongs(c, system, ranks); });
  RecordProperty("cases", int(run));
  ASSERT_GT(run, 0);
  TemporaryFolder folder;
  auto of_system = folder.path() + "/" + std::to_string(system);
  std::filesystem::create_directory(of_system);
  EXPECT_NO_THROW(roles::run("exactness", ranks, of_system));
}

INSTANTIATE_TEST_SUITE_P(Exactness, InProcesses,
                         testing::Combine(testing::Range(0, 5), testing::Values(1, 2, 4)),
                         [](const auto& values) {
                           return concat(identifier(std::get<0>(values.param)), "_",
                                         std::get<1>(values.param), "_ranks");
                         });

TEST(ExactnessCases, CoverEveryPairOfChoices) {
  auto count = [](const std::vector<Case>& cases) {
    std::set<std::array<int, 4>> pairs;
    for (const auto& c : cases)
      for (int f = 0; f < kFactors; ++f)
        for (int g = f + 1; g < kFactors; ++g) pairs.insert({f, c[size_t(f)], g, c[size_t(g)]});
    return pairs.size();
  };
  EXPECT_EQ(count(pairwise_cases()), count(all_cases()));
  EXPECT_LT(pairwise_cases().size(), all_cases().size() / 50);
}

}  // namespace
}  // namespace bigmac::train
