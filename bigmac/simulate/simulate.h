#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bigmac/schedule/check.h"
#include "bigmac/schedule/costs.h"
#include "bigmac/timeline/timeline.h"

namespace bigmac {

// The timeline of a table whose operators take `costs` and whose sends leave at once; links.h has one whose
// messages take time. Throws InvalidInput with the checker's words where the table has a deadlock.
Timeline simulate(const Schedule& schedule, const Costs& costs);

// What a simulated step is measured by. Times are in the unit of the costs.
struct StepReport {
  double makespan = 0;
  // The step of the plain base table (no delayed backwards) with the same costs and latency (links, where
  // there are any, count as free), plus the encoder and generator work spread evenly over the ranks: what
  // unlimited memory would give. None for a table that was not made from a base.
  std::optional<double> ideal;
  // max(total work / P, longest chain of dependencies): no schedule is faster.
  double lower_bound = 0;
  double idle_over_total = 0;  // idle: all outside operators (timeline.h)
  double idle_over_busy = 0;
  TimeShares shares;  // of P * makespan: the bubble, and beside it transfers and waits for messages' order
  std::vector<std::string> modules;  // the names for PeakLive::units
  std::vector<RankTime> times;
  std::vector<PeakLive> peaks;

  std::optional<double> ratio_to_ideal() const {
    return ideal ? std::optional(makespan / *ideal) : std::nullopt;
  }
  double ratio_to_lower_bound() const { return lower_bound > 0 ? makespan / lower_bound : 1; }
};
StepReport report(const Schedule& schedule, const Costs& costs, const Timeline& timeline);

// {"makespan", "ideal", "ratio_to_ideal" (where there is one), "lower_bound", "ratio_to_lower_bound",
//  "idle_over_total", "idle_over_busy", "bubble_over_total", "transfer_over_total", "order_over_total",
//  "ranks": [{"rank", "busy", "transfer", "order", "wait", "idle", "peak_units": {module: units},
//             "peak_in_flight"}]}
std::string to_json(const StepReport& report);

}  // namespace bigmac
