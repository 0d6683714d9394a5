#pragma once

#include "bigmac/plan/configuration.h"

namespace bigmac {

// What a configuration comes to.
struct Outcome {
  Configuration configuration;  // with its layers by stage
  int64_t microbatches = 0;     // M
  double step = 0;              // seconds: pipeline, gradients, update
  double pipeline = 0;
  double sync = 0;
  double optimizer = 0;
  double bubble = 0;    // parts of ranks * pipeline: idle or waiting for what has not been made,
  double transfer = 0;  // exchanging messages,
  double order = 0;     // waiting behind other messages
  double memory = 0;    // bytes of the largest rank at its peak, `reserved` included
  std::vector<double> memory_by_rank;
  double tokens_per_second = 0;  // of the backbone, a GPU
  double mfu = 0;                // the models' own FLOPs over what the GPUs could have done: no recompute
  bool fits = true;              // memory is at most the workload's
};

}  // namespace bigmac
