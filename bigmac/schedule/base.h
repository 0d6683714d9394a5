#pragma once

#include "bigmac/schedule/table.h"

namespace bigmac {

// Forwards that a rank runs before its first backward, as Megatron Core counts them:
// P-r-1 with one chunk, else 2(P-r-1) + (V-1)G, and never more than M*V.
// `extra` forwards are added before the clamp.
int64_t warmup_forwards(const Step& step, int rank, int64_t extra = 0);

// The backbone's own table, 1F1B or interleaved 1F1B in Megatron Core's order: forward k runs group by group
// of G microbatches, chunk by chunk, microbatch by microbatch; backward k the same with chunks reversed;
// after the warm-up one forward and one backward in turn. Throws InvalidInput for counts that are not legal.
Schedule base_table(const Step& step, int64_t extra_warmup = 0);

}  // namespace bigmac
