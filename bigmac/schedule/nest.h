#pragma once

#include "bigmac/schedule/costs.h"
#include "bigmac/schedule/table.h"

namespace bigmac {

// The table of a nested or three-phase step.
//
// Nested operators stand at consistent cuts: for a time t of the backbone-only timeline, each rank's cut is
// just before its first operator that starts at or after t. A predecessor ends before its successor starts,
// so what is before the cuts is closed under predecessors: every path crosses a cut at most once, and a unit
// inserted there cannot make a cycle. This holds for every base.
//
//   encoder F of unit 0        before everything
//   encoder F of units < W     at the start of their first F on stage 0, less the longest backbone operator
//   encoder F of unit u >= W   right behind the encoder B of unit u - W; of a frozen encoder as of units < W
//   encoder B of unit u        when the last B (or I) of stage 0 for u has ended
//   generator of unit u        when the last F of the last stage for u has ended; the base's backwards
//                              turn behind the generator (base.h)
//
// Cuts are then moved, encoder forwards' earlier and the others later, as far as it takes to be consistent
// for blocking sends too (sends.h). Several encoders and generators are nested side by side, each with its
// own W. A unit is a group of P consecutive microbatches, for generators of k; the last may be smaller; a
// unit without items is not there.
//
// A frozen encoder keeps nothing and has no B to stand behind; what must not pile up is its output, which
// waits on the rank of stage 0. So each of its units stands as late as it can without being waited for: with
// the longest backbone operator between a cut and what needs the unit, all that stands before the cut has
// ended by then. Earlier places, such as where B of unit u - W would be, would lengthen the step by as much
// and let outputs of up to W units wait. Here those of as many wait as stage 0 begins within one longest
// operator, and one more: of two at most with equal stages and P > 1. The places of other modules do not
// depend on it.
//
// three-phase puts all encoder forwards before and all encoder backwards behind the backbone's work.
//
// `nominal` (its backbone part) is what the cuts are looked for with. It decides places only: a table is safe
// whatever its operators then really take.
// Throws InvalidInput where a W that the step asks for is too small for the base (naming the smallest).
Schedule nested_schedule(const Step& step, const Costs& nominal);

// W by module: what the step asks for, else what nesting takes, 3 or more (of a frozen encoder, which needs
// none, 3); 0 for generators. Throws as above.
std::vector<int64_t> warmup_units(const Step& step, const Costs& nominal);

}  // namespace bigmac
