#pragma once

#include "bigmac/schedule/costs.h"
#include "bigmac/schedule/fill.h"
#include "bigmac/schedule/table.h"

namespace bigmac {

// The whole table of a step, by its arrangement; each arrangement's own header says what it does. `nominal`
// is what places are chosen with: a table is safe whatever its operators then really take.
// `most_passes` is nested-fill's (fill.h).
// Throws InvalidInput for a step that is not legal.
Schedule make_schedule(const Step& step, const Costs& nominal = {}, int64_t most_passes = kAllPasses);

}  // namespace bigmac
