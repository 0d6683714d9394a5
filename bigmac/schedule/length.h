#pragma once

#include "bigmac/schedule/costs.h"

namespace bigmac {

// When the last operator of a table ends, its first operators starting at 0, at these costs. 0 for a table
// without operators.
double length_of(const Schedule& schedule, const Costs& costs);

}  // namespace bigmac
