#pragma once

#include "bigmac/schedule/costs.h"
#include "bigmac/timeline/timeline.h"

namespace bigmac {

// What the operators of a measured timeline took on average, by module (for an item of size 1) and, in the
// backbone, by stage: the costs to simulate its schedule with. A generator's forward and backward are one
// operator; all of it counts as forward.
Costs mean_costs(const Schedule& schedule, const Timeline& timeline);

}  // namespace bigmac
