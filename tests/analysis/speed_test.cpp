#include <ctime>
#include <iostream>

#include "tests/analysis/support.h"

namespace bigmac {
namespace {

TEST(Analysis, TakesLessThanThreeSecondsForAMillionOperators) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "under a sanitizer";
#endif
  auto costs = module_costs(0.5, 1);
  auto schedule = make_schedule(nested_step(64, 2, 4096, true, false), costs);
  auto recording = recorded(schedule, simulate(schedule, costs));
  ASSERT_GT(recording.schedule.operators.size(), 1'000'000u);
  auto begin = std::clock();
  auto analysis = analyse(recording);
  double seconds = double(std::clock() - begin) / CLOCKS_PER_SEC;
  std::cout << recording.schedule.operators.size() << " operators: " << seconds << " s of CPU\n";
  EXPECT_LT(seconds, 3);
  EXPECT_TRUE(analysis.verdict.starts_with("no rank, stage, link or item stands out"));
}

}  // namespace
}  // namespace bigmac
