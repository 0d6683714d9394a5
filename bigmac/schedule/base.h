#pragma once

#include "bigmac/schedule/table.h"

namespace bigmac {

enum class Turn : uint8_t { at_once, behind_generator, behind_all_forwards };

// The backbone's own table. M may be anything: where a base is only defined for larger or rounder counts
// (interleaved: M mod G is 0 or at least P; zb-v: M >= 2P-1; dualpipe-v: M >= 2P), the table of the next such
// count is made and the microbatches that are not there are taken out of it. Dependencies are between
// operators of one microbatch, so what is left has no cycle either.
//
// With a generator, backwards turn behind the generator's unit of k microbatches instead of at once:
//   1f1b, interleaved, zb-h1   every backward, and what is split from it, comes a fixed number of forwards of
//                              its rank later: the fewest with which on the last stage a unit's first
//                              backward comes a forward behind its last forward; k, as long as k divides G
//   zb-v, dualpipe-v           turn_behind_generator_order (orders.h)
//   gpipe                      as it is
// or behind all of the rank's forwards.
// Throws InvalidInput for counts that are not legal.
Schedule base_table(const Step& step, Turn turn = Turn::at_once);

// The count for which the table is made.
int64_t padded_microbatches(const Step& step);

}  // namespace bigmac
