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
};

Job make_job(const JobParts& parts);

// Microbatches in flight of each chunk of each rank of a base, at the moment of that rank with most of them: [rank][chunk].
// No arrangement of the base holds fewer.
using InFlight = std::vector<std::vector<int32_t>>;
InFlight in_flight_of(const Step& step);

// Whether layers may be dealt out anew where the balanced ones do not fit (Estimator::evaluate).
bool can_shift_layers(const Configuration& configuration);

// No configuration's outcome is below these, whatever its schedule.
struct LeastOutcome {
  double step = 0;    // seconds
  double memory = 0;  // bytes
};
LeastOutcome least_outcome(const JobParts& parts, const InFlight& in_flight);

// Forward and backward of a microbatch, by layer.
std::vector<double> layer_seconds(const BackboneCosts& costs);

}  // namespace bigmac
