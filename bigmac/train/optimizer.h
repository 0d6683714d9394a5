#pragma once

#include <torch/optim/adamw.h>

#include <memory>

#include "bigmac/runtime/gradients.h"
#include "bigmac/train/config.h"

namespace bigmac::train {

// Step s of the warm-up takes (s + 1) / warmup_steps of the rate; then half a cosine down to the final rate
// at the last step. step counts from 0.
double learning_rate(const OptimizerConfig& config, int64_t step, int64_t steps);

// AdamW over one rank's parameters; decay on matrices only.
class Optimizer {
 public:
  Optimizer(const OptimizerConfig& config, const NamedParameters& parameters);
  void zero_gradients();
  void step(double learning_rate);

 private:
  std::unique_ptr<torch::optim::AdamW> adam_;
};

}  // namespace bigmac::train
