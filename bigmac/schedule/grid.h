#pragma once

#include <string>

#include "bigmac/schedule/table.h"

namespace bigmac {

// One line a rank, one column an equal slot of time: every operator stands as far right as the longest chain
// of operators it depends on, so blanks are bubbles. Cells are labels (labels.h). With `colour`, ANSI colours
// by module and phase.
std::string to_grid(const Schedule& schedule, bool colour = false);

}  // namespace bigmac
