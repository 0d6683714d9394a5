#pragma once

#include "bigmac/schedule/costs.h"

namespace bigmac {

// Microbatches of a step may be run in any order, since their gradients add up.

// The step whose position p holds what is at position order[p] of this one: items follow their microbatch,
// Step::order says which of the caller's microbatches stands where. Throws InvalidInput for what is no
// permutation of 0 .. M-1.
Step reordered(const Step& step, const std::vector<uint32_t>& order);

// An order in which units cost about their mean.
//
// In the module that loses most by its slowest ranks, and cannot be spread (one picture to generate a
// microbatch), microbatches with alike items are put into one unit. Where no module loses more than a
// hundredth of its work, microbatches are dealt out so that units have alike totals. Then heavy and light
// units take turns, so that what several units in a row hold stays near their mean.
// As they come, where that is no worse.
std::vector<uint32_t> balanced_order(const Step& step, const Costs& costs);

// Sum over the units of encoders and generators of the slowest rank's time in the unit, forward and backward,
// and the same if each were spread evenly.
struct UnitLoss {
  double slowest = 0;
  double mean = 0;
};
UnitLoss unit_loss(const Step& step, const Costs& costs);

}  // namespace bigmac
