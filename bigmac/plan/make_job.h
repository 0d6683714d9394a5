#pragma once

#include "bigmac/plan/backbone_costs.h"
#include "bigmac/plan/job.h"
#include "bigmac/plan/module_costs.h"

namespace bigmac {

// Sizes of the items of a draw, by sample; `total[s]`: of all items of the samples before s.
struct SampleSizes {
  std::vector<std::vector<double>> items;
  std::vector<double> total{0};

  void add_sample(std::vector<double> sizes);
};

// What a job is put together from. References stay the caller's.
struct JobParts {
  const Workload& workload;
  const Configuration& configuration;
  int64_t microbatches = 0;
  const BackboneCosts& backbone;
  const cost::Split& layers;
  std::vector<const ModuleWork*> modules;  // by Workload::modules
  std::vector<const SampleSizes*> sizes;   // likewise; replica 0's samples are the first ones

  double size_of(size_t module) const;  // of all items of the replica's samples
};

Job make_job(const JobParts& parts);

// Forward and backward of a microbatch, by layer.
std::vector<double> layer_seconds(const BackboneCosts& costs);

}  // namespace bigmac
