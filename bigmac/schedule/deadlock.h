#pragma once

#include <string>
#include <vector>

#include "bigmac/schedule/dependencies.h"
#include "bigmac/schedule/sends.h"

namespace bigmac {

// Runs the table by order alone, with all operators at `positions` (complete.h). Empty where it comes to its
// end; else the ranks and operators that wait for one another, in a circle.
std::string find_deadlock(const Schedule& schedule, const Dependencies& dependencies,
                          const std::vector<int32_t>& positions, Sends sends);

}  // namespace bigmac
