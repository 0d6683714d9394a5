#pragma once

#include "bigmac/schedule/costs.h"

namespace bigmac {

// How many ranks each module has to itself, in this order of rank.
struct RankSplit {
  int64_t encoder = 0;
  int64_t backbone = 1;
  int64_t generator = 0;

  bool operator==(const RankSplit&) const = default;
};

// Disjoint ranks for encoders, backbone and generators, as in DistTrain (Zhang et al. 2024): one 1F1B
// pipeline through all of them, in which the encoders are the first stage and the generators the last. A
// module's ranks share the items of one microbatch, longest first. The backbone has one stage a rank; its
// cost is that of the step's own stages, evenly spread over fewer. Ranks that have frozen encoders only run
// forwards and wait for nothing: where they are faster than the backbone, their outputs wait on its first
// rank.
Schedule disttrain_schedule(const Step& step, const RankSplit& split);

// The split of the step's P ranks with the shortest step at these costs; of equals, the one with most
// backbone ranks. Throws InvalidInput where P is less than the number of kinds of module.
RankSplit best_split(const Step& step, const Costs& costs);

// The costs of a table made for `step` with fewer stages.
Costs costs_for_stages(const Step& step, int64_t stages, const Costs& costs);

}  // namespace bigmac
