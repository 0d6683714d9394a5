#pragma once

#include <vector>

#include "bigmac/plan/configuration.h"
#include "bigmac/plan/layer_kinds.h"

namespace bigmac {

// What the backbone's layers take and hold, by layer, on one GPU.
struct BackboneCosts {
  std::vector<cost::LayerTime> times;   // of one microbatch
  std::vector<cost::LayerBytes> bytes;  // likewise
  std::vector<cost::StateBytes> states;
  std::vector<double> sync;       // seconds once a step: reducing gradients, gathering parameters
  std::vector<double> optimizer;  // likewise: the update
  double boundary = 0;            // bytes of a microbatch between two stages
  double flops = 0;               // the model's own, of one microbatch, all layers and GPUs of a replica
};
BackboneCosts backbone_costs(const Workload& workload, const LayerKinds& kinds,
                             const cost::Parallel& parallel, int64_t microbatch, cost::Recompute recompute);

}  // namespace bigmac
