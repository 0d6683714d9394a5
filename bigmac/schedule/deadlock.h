#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "bigmac/schedule/dependencies.h"
#include "bigmac/schedule/sends.h"

namespace bigmac {

// Runs the table by order alone, with all operators at `positions` (complete.h). Empty where it comes to its
// end; else the ranks and operators that wait for one another, in a circle.
std::string find_deadlock(const Schedule& schedule, const Dependencies& dependencies,
                          const std::vector<int32_t>& positions, Sends sends);

// Tells such a circle. `rank` is any rank that is stuck: since each waits for another stuck one, following
// the waits ends in the circle. wait_of(rank) gives the line to print for a rank, and the rank it waits for.
std::string tell_circle(int rank, const std::function<std::pair<std::string, int>(int)>& wait_of);

}  // namespace bigmac
