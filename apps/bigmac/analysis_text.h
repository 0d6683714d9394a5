#pragma once

#include <string>

#include "bigmac/analysis/analyse.h"

namespace bigmac {

// The analysis for people: the verdict in a line, where the step goes, what would help, then ranks, waits,
// critical path, costs by stage, memory and the gap to the simulation. Times in ms.
std::string to_text(const Recording& recording, const Analysis& analysis, bool colour = false);

}  // namespace bigmac
