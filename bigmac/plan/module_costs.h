#pragma once

#include <tuple>
#include <vector>

#include "bigmac/plan/layer_kinds.h"
#include "bigmac/simulate/memory.h"
#include "bigmac/workload/workload.h"

namespace bigmac {

// Where an encoder or generator runs: on the backbone's ranks, cut over the same tensor groups; in disttrain
// on GPUs of its own.
struct ModulePlacement {
  int64_t tensor = 1;
  int64_t replicas = 1;  // tensor groups that hold it
  int64_t shard = 1;     // GPUs that share its parameters out

  bool operator<(const ModulePlacement& other) const {
    return std::tie(tensor, replicas, shard) < std::tie(other.tensor, other.replicas, other.shard);
  }
};

// What an encoder or generator takes and holds, on one GPU. An item of size 1 has the distribution's mean
// tokens.
struct ModuleWork {
  ModuleCosts costs;             // seconds; `least_*`: gathering sharded parameters, reducing their gradients
  double kept = 0;               // bytes of activations of an item of size 1
  double working = 0;            // more while its backward runs
  double out = 0;                // bytes that an item of size 1 hands over
  std::vector<Holder> constant;  // parameters, gradients, optimizer states, gathered parameters
  double sync = 0;               // seconds once a step: reducing gradients, gathering parameters
  double optimizer = 0;          // likewise: the update
  double flops = 0;              // the model's own, of an item of size 1, all GPUs of a tensor group
};
ModuleWork module_work(const Workload& workload, size_t module, const LayerKinds& kinds,
                       const ModulePlacement& placement, cost::Recompute recompute);

// Seconds of an item's forward over those of an item with the mean tokens.
class ItemSizes {
 public:
  ItemSizes(const Workload& workload, size_t module, const LayerKinds& kinds, int64_t tensor);
  double operator()(double tokens) const;

 private:
  double forward(double tokens) const;

  const Workload& workload_;
  const WorkloadModule& module_;
  const LayerKinds& kinds_;
  cost::Parallel parallel_;
  double mean_;
};

// Mean items of a sample, those without any included.
double items_of_sample(const ItemDistribution& items);

}  // namespace bigmac
