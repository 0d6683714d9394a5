#include "bigmac/train/optimizer.h"

#include <torch/optim/adamw.h>

#include <cmath>
#include <numbers>

#include "bigmac/runtime/torch_versions.h"

namespace bigmac::train {
namespace {

constexpr const char* kFirst = ".exp_avg";
constexpr const char* kSecond = ".exp_avg_sq";

torch::optim::AdamWParamState* state_of(torch::optim::AdamW& adam, const torch::Tensor& parameter) {
  auto found = adam.state().find(optimizer_key(parameter));
  return found == adam.state().end() ? nullptr
                                     : static_cast<torch::optim::AdamWParamState*>(found->second.get());
}

}  // namespace

double learning_rate(const OptimizerConfig& config, int64_t step, int64_t steps) {
  if (step < config.warmup_steps)
    return config.learning_rate * double(step + 1) / double(config.warmup_steps);
  double span = double(std::max<int64_t>(steps - 1 - config.warmup_steps, 1));
  double progress = std::min(1.0, double(step - config.warmup_steps) / span);
  double wave = 0.5 * (1 + std::cos(std::numbers::pi * progress));
  return config.final_learning_rate + (config.learning_rate - config.final_learning_rate) * wave;
}

Optimizer::Optimizer(const OptimizerConfig& config,
                     const std::vector<std::unique_ptr<ParameterUnit>>& units) {
  Tensors decaying, others;
  for (const auto& unit : units)
    for (const auto& segment : unit->segments()) {
      segment.values.mutable_grad() = segment.gradient;
      (segment.decays ? decaying : others).push_back(segment.values);
    }
  auto options = [&](double decay) {
    return std::make_unique<torch::optim::AdamWOptions>(torch::optim::AdamWOptions(config.learning_rate)
                                                            .betas({config.beta1, config.beta2})
                                                            .eps(config.eps)
                                                            .weight_decay(decay));
  };
  std::vector<torch::optim::OptimizerParamGroup> groups;
  if (!decaying.empty()) groups.emplace_back(decaying, options(config.weight_decay));
  if (!others.empty()) groups.emplace_back(others, options(0));
  if (!groups.empty()) adam_ = std::make_unique<torch::optim::AdamW>(groups, torch::optim::AdamWOptions());
}

Optimizer::~Optimizer() = default;

void Optimizer::step(double learning_rate) {
  if (!adam_) return;
  for (auto& group : adam_->param_groups())
    static_cast<torch::optim::AdamWOptions&>(group.options()).lr(learning_rate);
  adam_->step();
}

std::map<std::string, torch::Tensor> Optimizer::states(const ParameterUnit& unit) const {
  Tensors first, second;
  for (const auto& segment : unit.segments()) {
    const auto* state = state_of(*adam_, segment.values);
    first.push_back(state ? state->exp_avg() : torch::zeros_like(segment.values));
    second.push_back(state ? state->exp_avg_sq() : torch::zeros_like(segment.values));
  }
  std::map<std::string, torch::Tensor> whole;
  for (auto& [name, value] : unit.whole(first)) whole[name + kFirst] = value;
  for (auto& [name, value] : unit.whole(second)) whole[name + kSecond] = value;
  return whole;
}

void Optimizer::set_states(const ParameterUnit& unit, const std::map<std::string, torch::Tensor>& whole,
                           int64_t taken) {
  std::map<std::string, torch::Tensor> first, second;
  for (const auto& parameter : unit.parameters()) {
    first[parameter.name] = whole.at(parameter.name + kFirst);
    second[parameter.name] = whole.at(parameter.name + kSecond);
  }
  auto first_pieces = unit.pieces(first), second_pieces = unit.pieces(second);
  for (size_t i = 0; i < unit.segments().size(); ++i) {
    auto state = std::make_unique<torch::optim::AdamWParamState>();
    state->step(taken);
    state->exp_avg(first_pieces[i]);
    state->exp_avg_sq(second_pieces[i]);
    adam_->state()[optimizer_key(unit.segments()[i].values)] = std::move(state);
  }
}

int64_t Optimizer::bytes() const {
  int64_t bytes = 0;
  if (!adam_) return 0;
  for (const auto& group : adam_->param_groups())
    for (const auto& parameter : group.params())
      if (const auto* state = state_of(*adam_, parameter))
        bytes += int64_t(state->exp_avg().nbytes() + state->exp_avg_sq().nbytes());
  return bytes;
}

}  // namespace bigmac::train
