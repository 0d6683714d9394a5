#pragma once

#include <optional>
#include <string>

#include "bigmac/schedule/disttrain.h"
#include "bigmac/simulate/simulate.h"

namespace bigmac {

// The report for people: what the step is, its figures with their definitions, then a line a rank.
std::string to_text(const Schedule& schedule, const Costs& costs, const StepReport& report);

// Sum over the units of their slowest rank's time / sum of their mean. None for a table that units do not
// cut.
std::optional<double> unit_imbalance(const Schedule& schedule, const Costs& costs);

// How a disttrain table divides the ranks; none for other tables.
std::optional<RankSplit> split_of(const Schedule& schedule);

// Live units with at most two digits behind the point: "3", "2.65".
std::string units_text(double units);

}  // namespace bigmac
