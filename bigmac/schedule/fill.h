#pragma once

#include "bigmac/schedule/costs.h"
#include "bigmac/schedule/table.h"

namespace bigmac {

inline constexpr int64_t kAllPasses = 1'000'000;

// The table of a nested-fill step: items of encoders and generators, one an operator, in the backbone's
// bubbles and, where those do not suffice, between its operators.
//
// The backbone-only timeline is stretched so that the items' work has room (stretch.h): every backbone
// operator gets a target, the same stretch at the same moment on all ranks, which is what cuts are to
// nesting. Then one pass in order of time: a rank that is free runs its next backbone operator when that is
// ready and its target is reached; else an item that fits before the target; else the backbone operator
// before its target. Of items it takes generators' first, then encoder backwards, or encoder forwards where
// those are urgent. Several passes are made, by different rules; the shortest table is taken.
// nested_schedule's is one of them.
//
// What holds, whatever the items:
//
//   rows    the backbone's operators keep the base's order (with a generator, of the base that turns behind)
//   memory  a rank holds at most W + 1 units of each encoder (W: nest.h, unit_sizes: spread.h); of a frozen
//           one it holds none, and as much of what it made waits for stage 0 at most, at `nominal` costs
//   safety  operators are put down in an order in which they could run one at a time, even when sends block
//   time    never longer than nested_schedule's table, with `nominal` costs
//
// A share is one item, and the table has no units; or it is nested_schedule's own, where that is the best.
// `nominal` decides places only. The same step and costs give the same table.
// `most_passes`: fewer than it would make, for callers that look at thousands of steps.
// Throws InvalidInput as nested_schedule does.
Schedule fill_schedule(const Step& step, const Costs& nominal, int64_t most_passes = kAllPasses);

}  // namespace bigmac
