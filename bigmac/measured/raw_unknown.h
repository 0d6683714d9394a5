#pragma once

#include "bigmac/measured/raw_step.h"

namespace bigmac {

// Gives every backbone operator its chunk, microbatch and position, where the file does not say them:
//
//   chunk       from the stage (a rank's chunks are its stages in ascending order); else 0 with one chunk;
//   else
//               from the order of interleaved 1F1B, or, where the microbatch is known, from how often it came
//   microbatch  in the order in which the chunk's forwards, and backwards, ran
//   position    the microbatch
//
// Microbatches that count from 1 are made to count from 0. Throws InvalidInput where the counts do not fit;
// with `incomplete` operators that fit nowhere get the numbers of others, and ranks may be empty.
void fill_in_unknown(RawStep& raw, bool incomplete = false);

}  // namespace bigmac
