#pragma once

#include "bigmac/measured/raw_step.h"

namespace bigmac {

// Makes of a damaged or incomplete step what can be put together (assemble_what_is_there). What is left out
// or changed goes to `left`.

// Each rank's operators in order of time: those with times that are none, backwards, or far from all others
// (ten thousand times what most of the rank's operators span) are left out, and those that overlap the next
// one end where that begins. Waits and transfers lie between them, without overlaps; memory is in order of
// time.
void mend_times(RawStep& raw, LeftOut& left);

// Chunks, microbatches, positions, stages and items that one step can have, each operator once. Fills in what
// the file does not say (raw_unknown.h). Returns the rank of every stage, empty for a loop over the ranks.
std::vector<int32_t> mend_shape(RawStep& raw, LeftOut& left);

// "rank 1, F chunk 0 microbatch 3 at 0.25 s": for what was left out.
std::string told(const RawRank& rank, const RawOperator& op);

}  // namespace bigmac
