#pragma once

#include "bigmac/schedule/costs.h"
#include "bigmac/timeline/timeline.h"

namespace bigmac {

// What the operators of a measured timeline took on average, by module (for an item of size 1) and, in the
// backbone, by stage: the costs to simulate its schedule with. A generator's forward and backward are one
// operator; all of it counts as forward.
Costs mean_costs(const Schedule& schedule, const Timeline& timeline);

// The same operators, each as much longer as its rank moved bytes for it: messages packed and taken,
// parameters gathered, gradients reduced. Costs made of these hold that work. Waiting is left out, also that
// for the last rank in the exchange that ends a step; starts stay.
Timeline with_transfers(const Timeline& timeline);

}  // namespace bigmac
