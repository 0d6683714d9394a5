#pragma once

#include <memory>

#include "bigmac/train/parameter_unit.h"

namespace torch::optim {
class AdamW;
}

namespace bigmac::train {

struct OptimizerConfig {
  double learning_rate = 1e-3;
  int64_t warmup_steps = 0;        // linear: step s takes (s + 1) / warmup_steps of the rate
  double final_learning_rate = 0;  // of the cosine, at the last step
  double weight_decay = 0;         // on matrices; not on norms, biases
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double clip_norm = 1.0;  // of all gradients together; 0: not clipped

  bool operator==(const OptimizerConfig&) const = default;
};

// Step s of the warm-up takes (s + 1) / warmup_steps of the rate; then half a cosine down to the final rate
// at the last step. step counts from 0.
double learning_rate(const OptimizerConfig& config, int64_t step, int64_t steps);

// AdamW (Loshchilov and Hutter 2019) over the segments of units, whose states are sharded as they are.
class Optimizer {
 public:
  // The units must outlive it.
  Optimizer(const OptimizerConfig& config, const std::vector<std::unique_ptr<ParameterUnit>>& units);
  ~Optimizer();

  // Updates the segments; what they hold is not published yet.
  void step(double learning_rate);

  // States of a unit's parameters as whole tensors: "NAME.exp_avg", "NAME.exp_avg_sq". Every rank of the
  // unit's group calls it.
  std::map<std::string, torch::Tensor> states(const ParameterUnit& unit) const;
  // The inverse; `taken`: the steps that were taken to get there.
  void set_states(const ParameterUnit& unit, const std::map<std::string, torch::Tensor>& whole,
                  int64_t taken);

  int64_t bytes() const;  // of this rank's states

 private:
  std::unique_ptr<torch::optim::AdamW> adam_;
};

}  // namespace bigmac::train
