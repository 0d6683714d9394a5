#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bigmac/measured/measured_step.h"
#include "bigmac/schedule/costs.h"

namespace bigmac {

// What stands for an operator's time: every measured one itself, or the mean or median of those alike.
enum class Statistic : uint8_t { each, mean, median };
std::string_view name(Statistic statistic);            // each, mean, median
Statistic statistic_from_name(std::string_view text);  // InvalidInput with the nearest known name

// Times of operators that are alike, in seconds.
struct Spread {
  int64_t count = 0;
  double mean = 0, median = 0;
  double p5 = 0, p95 = 0;  // percentiles; between two values in proportion
  double least = 0, most = 0;
};
Spread spread_of(std::vector<double> times);

struct StageTimes {
  int64_t stage = 0;
  int rank = 0;
  Phase phase = Phase::forward;
  Spread spread;
};
struct ModuleTimes {  // of an encoder or generator, for an item of size 1
  std::string module;
  Phase phase = Phase::forward;
  Spread spread;
};
struct OperatorTimes {
  std::vector<StageTimes> stages;  // by stage, then phase; only what ran
  std::vector<ModuleTimes> modules;
};

// What operators took over all of the steps. Throws InvalidInput for steps of different P or V.
OperatorTimes operator_times(const std::vector<const MeasuredStep*>& steps);

// As costs to simulate with, in seconds: by stage and by module (Step::modules), the mean or the median;
// `each` gives the means. The means of a stage are over its operators, those of a module over its items by
// size (mean_costs.h). Where backwards were measured whole, half of a backward is its weight gradient.
Costs fit_costs(const MeasuredStep& step, Statistic statistic);

// a + b * (microbatches in flight at the peak), by least squares over the ranks.
struct MemoryFit {
  double constant = 0;             // a, bytes: parameters, gradients, optimizer, buffers
  double per_in_flight = 0;        // b, bytes that one chunk-forward in flight holds
  std::vector<int64_t> in_flight;  // by rank, along its row (check.h)
  std::vector<double> fitted;      // by rank, bytes
  int64_t ranks_used = 0;          // all, or all but the last
  // Largest |fitted / measured - 1| of the ranks that were used.
  double largest_error = 0;
};

// `head_apart` leaves out the last rank, which holds the output head and the loss: what it has more is then
// measured - fitted there. None where memory was not measured, fewer than three ranks are left, all have as
// many in flight, or the step has encoders or generators, which hold memory too.
std::optional<MemoryFit> fit_memory(const MeasuredStep& step, bool head_apart);

}  // namespace bigmac
