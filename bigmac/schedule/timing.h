#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "bigmac/schedule/dependencies.h"
#include "bigmac/schedule/walk.h"

namespace bigmac {

inline constexpr double kNotRun = -1;

// When what an operator needs from other operators has ended and, from another rank, arrived; kNotRun while
// something has not run. `ends` holds end times by operator id.
inline double inputs_ready(const Dependencies& dependencies, int rank, const Operator& op,
                           std::span<const double> ends, double latency) {
  double ready = 0;
  bool all_ran = true;
  dependencies.for_each_predecessor(rank, op, [&](int64_t id, int from) {
    double end = ends[id];
    all_ran &= end >= 0;
    ready = std::max(ready, from == rank ? end : end + latency);
  });
  return all_ran ? ready : kNotRun;
}

// Runs the table with duration(rank, op), each operator as soon as its row and its inputs allow, and calls
// ran(rank, op, start, end). Fills `ends` (by id, resized here); returns the position each rank reached.
template <class Duration, class Ran>
std::vector<int64_t> run_table(const Schedule& schedule, const Dependencies& dependencies,
                               const Duration& duration, double latency, std::vector<double>& ends,
                               Ran&& ran) {
  ends.assign(dependencies.count(), kNotRun);
  std::vector<double> free_at(schedule.ranks(), 0.0);
  return walk(schedule, [&](int rank, int64_t, const Operator& op) {
    double ready = inputs_ready(dependencies, rank, op, ends, latency);
    if (ready < 0) return false;
    double start = std::max(ready, free_at[rank]);
    double end = start + duration(rank, op);
    free_at[rank] = end;
    ends[dependencies.of(rank, op)] = end;
    ran(rank, op, start, end);
    return true;
  });
}

}  // namespace bigmac
