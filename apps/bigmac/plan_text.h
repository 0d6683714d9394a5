#pragma once

#include <string>

#include "bigmac/plan/explain_plan.h"
#include "bigmac/plan/search.h"

namespace bigmac {

// "understanding on 128 H800 of 80.0 GiB"
std::string job_text(const Workload& workload);
// "8 samples a GPU, 1024 in a step"
std::string batch_text(int64_t samples_per_gpu, const Workload& workload);

// A plan, and what is found out about its best configuration.
struct PlanReport {
  const Workload& workload;
  Plan plan;
  double seconds = 0;    // that the search took
  int64_t frontier = 0;  // lines of it that people get

  // Of the best, where there is one.
  StepParts parts{};
  Estimator::FullestRank fullest{};
  std::vector<Choice> choices{};
};
// At most `best` of the plan's best, its first polished.
PlanReport report_of(Plan plan, const Workload& workload, double seconds, int64_t best, int64_t frontier);

std::string to_text(const PlanReport& report);

// At most `count` outcomes of a frontier, spread evenly over its range of memory (by ratio): for each limit
// the shortest step within it.
std::vector<Outcome> thinned(const std::vector<Outcome>& frontier, int64_t count);

}  // namespace bigmac
