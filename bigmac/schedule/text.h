#pragma once

#include <string>

#include "bigmac/schedule/table.h"

namespace bigmac {

// One line a rank, one column an equal slot of time: every operator stands as far right as the longest chain
// of operators it depends on, so blanks are bubbles. Cells are short_name(op). With `colour`, ANSI colours by
// module and phase.
std::string to_grid(const Schedule& schedule, bool colour = false);

// rank,position,module,operator,chunk,microbatch: module backbone, encoder or generator; operator F, B or G;
// chunk empty where the module has none.
std::string to_csv(const Schedule& schedule);

// {"ranks", "chunks", "microbatches", "base", "group", "schedule", "warmup_units",
//  "rows": [[{"module", "operator", "chunk" (backbone only), "microbatch"}, ...], ...],
//  "units": [{"module", "operator", "unit", "places": [position by rank]}, ...]}
std::string to_json(const Schedule& schedule);

}  // namespace bigmac
