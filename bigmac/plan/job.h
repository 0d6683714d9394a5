#pragma once

#include "bigmac/plan/configuration.h"
#include "bigmac/schedule/disttrain.h"
#include "bigmac/schedule/fill.h"
#include "bigmac/simulate/links.h"
#include "bigmac/simulate/memory.h"

namespace bigmac {

// A configuration of a workload as the scheduler and the simulator take it: one replica of the backbone,
// whose ranks are tensor groups, with the encoders and generators that serve it. Seconds and bytes a GPU.
struct Job {
  Step step;
  RankSplit split;  // disttrain's
  Costs costs;
  Links links;
  Bytes bytes;
  cost::Split layers;    // by stage
  double sync = 0;       // seconds at the end of a step: what of reducing gradients is not hidden
  double optimizer = 0;  // seconds of the update
  double flops = 0;      // the models' own, of the step, all GPUs of this replica
};

// `most_passes` as fill.h has it.
Schedule make_schedule(const Job& job, int64_t most_passes = kAllPasses);

}  // namespace bigmac
