#pragma once

#include "bigmac/measured/raw_step.h"

namespace bigmac {

// Of a step whose operators all say their chunk, microbatch and position:

// Where each stage is; empty for a loop over the ranks. Throws InvalidInput for one that is on two ranks or
// on none.
std::vector<int32_t> stage_ranks_of(const RawStep& raw);

// The table that ran: each rank's row in the order in which they stand. Throws InvalidInput for items and
// counts that no step has; what else may be wrong with a table check() finds.
Schedule schedule_of(const RawStep& raw, std::vector<int32_t> stage_ranks);

}  // namespace bigmac
