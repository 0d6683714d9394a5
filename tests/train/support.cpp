#include "tests/train/support.h"

#include <torch/torch.h>

#include "bigmac/data/text.h"
#include "bigmac/nn/initialise.h"

namespace bigmac::train {

Config small_config(int64_t pp, int64_t vpp, int64_t microbatches, const std::string& dtype) {
  Config config;
  config.encoder = {.picture = 16,
                    .channels = 3,
                    .patch = 4,
                    .hidden = 16,
                    .layers = 1,
                    .heads = 2,
                    .ffn = 24,
                    .merge = 2,
                    .out = 24};
  config.backbone.hidden = 24;
  config.backbone.layers = 9;
  config.backbone.heads = 2;
  config.backbone.kv_heads = 1;
  config.backbone.head_dim = 12;
  config.backbone.ffn = 32;
  config.generator = {
      .picture = 16, .channels = 3, .patch = 4, .hidden = 16, .layers = 1, .heads = 2, .ffn = 24, .text = 24};
  config.pp = pp;
  config.vpp = vpp;
  config.batch.microbatches = microbatches;
  config.batch.samples = 2;
  config.steps = 20;
  config.optimizer.warmup_steps = 4;
  config.seed = 7;
  config.dtype = dtype;
  config.complete();
  return config;
}

data::Dataset noise_dataset(int64_t pairs, int64_t side) {
  std::vector<data::Pair> list;
  for (int64_t i = 0; i < pairs; ++i)
    list.push_back(
        {"picture" + std::string(size_t(i % 7), 'x') + std::to_string(i), std::to_string(i), i % 10 == 9});
  auto generator = at::detail::createCPUGenerator(3);
  auto pictures = torch::randint(0, 256, {pairs, 3, side, side}, generator, torch::dtype(torch::kUInt8));
  return data::Dataset(std::move(list), pictures);
}

PlainLoop::PlainLoop(const Config& config)
    : config_(config),
      encoder_(config.encoder),
      decoder_(nn::Decoder::whole(config.backbone)),
      generator_(config.generator) {
  auto dtype = config.dtype == "float64" ? torch::kFloat64 : torch::kFloat32;
  encoder_->to(dtype);
  decoder_->to(dtype);
  generator_->to(dtype);
  nn::initialise(*encoder_, config.seed, "encoder.");
  nn::initialise(*decoder_, config.seed, "backbone.");
  nn::initialise(*generator_, config.seed, "generator.");
  std::vector<torch::Tensor> matrices, others;
  for (auto& [name, parameter] : named()) (parameter.dim() >= 2 ? matrices : others).push_back(parameter);
  auto options = torch::optim::AdamWOptions(0).betas({config.optimizer.beta1, config.optimizer.beta2});
  std::vector<torch::optim::OptimizerParamGroup> groups;
  groups.emplace_back(matrices,
                      std::make_unique<torch::optim::AdamWOptions>(
                          torch::optim::AdamWOptions(options).weight_decay(config.optimizer.weight_decay)));
  groups.emplace_back(others, std::make_unique<torch::optim::AdamWOptions>(
                                  torch::optim::AdamWOptions(options).weight_decay(0)));
  optimizer_ = std::make_unique<torch::optim::AdamW>(groups, options);
}

double PlainLoop::compute_gradients(const data::Batch& batch) {
  for (auto& [name, parameter] : named()) parameter.mutable_grad() = torch::zeros_like(parameter);
  auto dtype = config_.dtype == "float64" ? torch::kFloat64 : torch::kFloat32;
  double total = 0;
  for (const auto& m : batch.microbatches) {
    torch::Tensor pictures;
    if (m.has_pictures()) pictures = encoder_->forward(m.pictures.to(dtype));
    std::vector<int64_t> rows;
    for (int64_t i = 0; i < m.picture_rows.numel(); ++i) rows.push_back(m.picture_rows[i].item<int64_t>());
    auto x = decoder_->embed(m.tokens, pictures, rows, data::kPicture);
    for (int64_t layer = 0; layer < config_.backbone.layers; ++layer) x = decoder_->run(layer, x);
    auto states = decoder_->states(x);
    // Every position's cross entropy by hand, then those that count.
    auto logs = torch::log_softmax(decoder_->logits(states), -1);
    auto counts = m.labels.ne(-100);
    auto picked = logs.gather(-1, m.labels.clamp_min(0).unsqueeze(-1)).squeeze(-1);
    auto loss = -(picked * counts.to(dtype)).sum() / double(batch.valid_tokens);
    if (m.has_targets()) {
      auto text = states.index({m.target_rows});
      auto time = m.times.to(dtype).view({-1, 1, 1, 1});
      auto target = m.targets.to(dtype), noise = m.noise.to(dtype);
      auto velocity =
          generator_->forward((1 - time) * target + time * noise, m.times.to(dtype), text, m.target_mask);
      auto error = velocity - (noise - target);
      loss = loss + config_.generator_weight * (error * error).sum() / double(batch.target_values);
    }
    loss.backward();
    total += loss.item<double>();
  }
  return total;
}

double PlainLoop::train_step(const data::Batch& batch, int64_t step) {
  double loss = compute_gradients(batch);
  double squares = 0;
  for (auto& [name, parameter] : named()) squares += parameter.grad().square().sum().item<double>();
  double norm = std::sqrt(squares);
  if (norm > config_.optimizer.clip_norm)
    for (auto& [name, parameter] : named())
      parameter.grad().mul_(config_.optimizer.clip_norm / (norm + 1e-6));
  for (auto& group : optimizer_->param_groups())
    static_cast<torch::optim::AdamWOptions&>(group.options())
        .lr(learning_rate(config_.optimizer, step, config_.steps));
  optimizer_->step();
  return loss;
}

NamedParameters PlainLoop::named() {
  NamedParameters all;
  for (const auto& item : encoder_->named_parameters())
    all.emplace_back("encoder." + item.key(), item.value());
  for (const auto& item : decoder_->named_parameters())
    all.emplace_back("backbone." + item.key(), item.value());
  for (const auto& item : generator_->named_parameters())
    all.emplace_back("generator." + item.key(), item.value());
  return all;
}

std::map<std::string, torch::Tensor> PlainLoop::gradients() {
  std::map<std::string, torch::Tensor> all;
  for (auto& [name, parameter] : named()) all[name] = parameter.grad().clone();
  return all;
}

std::map<std::string, torch::Tensor> PlainLoop::parameters() {
  std::map<std::string, torch::Tensor> all;
  for (auto& [name, parameter] : named()) all[name] = parameter.detach().clone();
  return all;
}

Difference largest_difference(const std::map<std::string, torch::Tensor>& got,
                              const std::map<std::string, torch::Tensor>& expected) {
  Difference difference;
  auto consider = [&](double distance, const std::string& name) {
    if (distance > difference.most || std::isnan(distance)) difference = {distance, name};
  };
  for (const auto& [name, value] : expected) {
    auto found = got.find(name);
    if (found == got.end()) {
      consider(INFINITY, name + " (missing)");
      continue;
    }
    double norm = value.norm().item<double>();
    double distance = (found->second - value).norm().item<double>();
    consider(norm > 0 ? distance / norm : (distance > 0 ? INFINITY : 0), name);
  }
  for (const auto& [name, value] : got)
    if (!expected.contains(name)) consider(INFINITY, name + " (strange)");
  return difference;
}

}  // namespace bigmac::train
