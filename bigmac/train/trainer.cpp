#include "bigmac/train/trainer.h"

#include <torch/torch.h>

#include "bigmac/runtime/gather.h"
#include "bigmac/schedule/make.h"
#include "bigmac/schedule/order.h"

namespace bigmac::train {

Step declare_step(const Config& config, const data::Batch& batch) {
  std::vector<Item> pictures, targets;
  for (size_t m = 0; m < batch.microbatches.size(); ++m) {
    const auto& microbatch = batch.microbatches[m];
    pictures.insert(pictures.end(), size_t(microbatch.picture_count()), {uint32_t(m), picture_size(config)});
    targets.insert(targets.end(), size_t(microbatch.target_count()), {uint32_t(m), target_size(config)});
  }
  return with_items(step_of(config), config, std::move(pictures), std::move(targets));
}

Costs nominal_costs(const Config& config, const data::Batch& batch) {
  const auto& b = config.backbone;
  const auto& e = config.encoder;
  const auto& g = config.generator;
  double tokens = 0;
  for (const auto& microbatch : batch.microbatches) tokens += double(microbatch.tokens.numel());
  tokens /= double(batch.microbatches.size());
  int64_t attention = b.hidden * b.head_dim * (2 * b.heads + 2 * b.kv_heads);
  double stage =
      tokens * double(b.layers * (attention + 3 * b.hidden * b.ffn)) / double(config.pp * config.vpp);
  double patch = double(e.layers * e.hidden * (4 * e.hidden + 3 * e.ffn)) / stage;
  double drawn = double(g.layers * g.hidden * (4 * g.hidden + 2 * g.ffn)) / stage;
  return {.forward = {1}, .backward = {2}, .weight = {}, .modules = {{patch, 2 * patch}, {drawn, 2 * drawn}}};
}

Trainer::Trainer(const Config& config, const data::Dataset& dataset, Transport& transport,
                 std::shared_ptr<MemoryLedger> ledger)
    : config_(config),
      dataset_(dataset),
      transport_(transport),
      ledger_(std::move(ledger)),
      model_(config, transport.rank()),
      gradients_(transport, model_.parameters()),
      optimizer_(config.optimizer, model_.parameters()) {}

StepFigures Trainer::compute_gradients(int64_t step) {
  auto batch = data::make_batch(dataset_, config_.batch, step);
  auto nominal = nominal_costs(config_, batch);
  auto declared = declare_step(config_, batch);
  if (config_.order == Order::balanced) declared = reordered(declared, balanced_order(declared, nominal));
  schedule_ = make_schedule(declared, nominal);
  model_.set_batch(batch);
  std::optional<MemoryLedger::Watch> watch;
  if (ledger_) watch.emplace(ledger_);
  optimizer_.zero_gradients();
  transport_.barrier();
  began_ = now();
  Executor executor(schedule_, transport_, {.device = model_.options().device(), .ledger = ledger_.get()});
  auto result = executor.run(model_);
  auto losses = torch::tensor({result.backbone_loss, result.generator_loss}, torch::kFloat64);
  double ran = now();
  transport_.barrier();
  double reducing = now();
  gradients_.sum();
  transport_.all_reduce(losses);
  ended_ = now();
  record_ = std::move(result.record);
  const Operator& last = schedule_.row(transport_.rank()).back();
  record_.intervals.push_back({Spent::wait, -1, last, ran, reducing});
  record_.intervals.push_back({Spent::transfer, -1, last, reducing, ended_});
  StepFigures figures;
  figures.step = step;
  figures.backbone_loss = losses[0].item<double>();
  figures.generator_loss = losses[1].item<double>();
  figures.seconds = ended_ - began_;
  figures.samples = config_.batch.microbatches * config_.batch.samples;
  return figures;
}

StepFigures Trainer::train_step(int64_t step) {
  double start = now();
  auto figures = compute_gradients(step);
  figures.gradient_norm = gradients_.clip_norm(config_.optimizer.clip_norm);
  figures.learning_rate = learning_rate(config_.optimizer, step, config_.steps);
  if (!std::isfinite(figures.loss()) || !std::isfinite(figures.gradient_norm))
    throw Failure(concat("[train] step ", step, ": the loss is ", figures.loss(),
                         " and the gradients' norm is ", figures.gradient_norm, "; lower the learning rate"));
  optimizer_.step(figures.learning_rate);
  figures.seconds = now() - start;
  return figures;
}

Timeline Trainer::timeline() {
  return gather_timeline(transport_, record_, began_, ended_);
}

std::map<std::string, torch::Tensor> Trainer::gather_parameters() {
  return gather_named(transport_, gradients_.owned());
}

std::map<std::string, torch::Tensor> Trainer::gather_gradients() {
  NamedParameters gradients;
  for (const auto& [name, parameter] : gradients_.owned()) gradients.emplace_back(name, parameter.grad());
  return gather_named(transport_, gradients);
}

}  // namespace bigmac::train
