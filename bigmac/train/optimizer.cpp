#include "bigmac/train/optimizer.h"

#include <cmath>
#include <numbers>

namespace bigmac::train {

double learning_rate(const OptimizerConfig& config, int64_t step, int64_t steps) {
  if (step < config.warmup_steps)
    return config.learning_rate * double(step + 1) / double(config.warmup_steps);
  double span = double(std::max<int64_t>(steps - 1 - config.warmup_steps, 1));
  double progress = std::min(1.0, double(step - config.warmup_steps) / span);
  double wave = 0.5 * (1 + std::cos(std::numbers::pi * progress));
  return config.final_learning_rate + (config.learning_rate - config.final_learning_rate) * wave;
}

Optimizer::Optimizer(const OptimizerConfig& config, const NamedParameters& parameters) {
  std::vector<torch::Tensor> matrices, others;
  for (const auto& [name, parameter] : parameters)
    if (parameter.requires_grad()) (parameter.dim() >= 2 ? matrices : others).push_back(parameter);
  auto options = [&](double decay) {
    return std::make_unique<torch::optim::AdamWOptions>(torch::optim::AdamWOptions(config.learning_rate)
                                                            .betas({config.beta1, config.beta2})
                                                            .weight_decay(decay));
  };
  std::vector<torch::optim::OptimizerParamGroup> groups;
  if (!matrices.empty()) groups.emplace_back(matrices, options(config.weight_decay));
  if (!others.empty()) groups.emplace_back(others, options(0));
  if (!groups.empty()) adam_ = std::make_unique<torch::optim::AdamW>(groups, torch::optim::AdamWOptions());
}

void Optimizer::zero_gradients() {
  if (!adam_) return;
  for (auto& group : adam_->param_groups())
    for (auto& parameter : group.params()) parameter.mutable_grad() = torch::Tensor();
}

void Optimizer::step(double learning_rate) {
  if (!adam_) return;
  for (auto& group : adam_->param_groups())
    static_cast<torch::optim::AdamWOptions&>(group.options()).lr(learning_rate);
  adam_->step();
}

}  // namespace bigmac::train
