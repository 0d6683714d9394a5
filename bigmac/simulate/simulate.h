#pragma once

#include <vector>

#include "bigmac/schedule/check.h"
#include "bigmac/schedule/costs.h"
#include "bigmac/timeline/timeline.h"

namespace bigmac {

// The timeline of a table whose operators take `costs` and whose sends leave at once. Throws InvalidInput
// with the checker's words where the table has a deadlock.
Timeline simulate(const Schedule& schedule, const Costs& costs);

// What a simulated step is measured by. Times are in the unit of the costs.
struct StepReport {
  double makespan = 0;
  // The step of the plain base table (no extra warm-up) with the same costs and latency, plus the nested
  // encoder and generator work spread evenly over the ranks: what unlimited memory would give.
  double ideal = 0;
  // max(total work / P, longest chain of dependencies): no schedule is faster.
  double lower_bound = 0;
  double idle_over_total = 0;
  double idle_over_busy = 0;
  int64_t warmup_units = 0;  // 0 without an encoder
  std::vector<RankTime> times;
  std::vector<PeakLive> peaks;

  double ratio_to_ideal() const { return makespan / ideal; }
};
StepReport report(const Schedule& schedule, const Costs& costs, const Timeline& timeline);

// {"makespan", "ideal", "ratio_to_ideal", "lower_bound", "idle_over_total", "idle_over_busy", "warmup_units",
//  "ranks": [{"rank", "busy", "idle", "peak_encoder_units", "peak_generator_units",
//             "peak_backbone_in_flight"}]}
std::string to_json(const StepReport& report);

}  // namespace bigmac
