#include "bigmac/train/trainer.h"

#include <torch/torch.h>

#include "bigmac/runtime/gather.h"
#include "bigmac/schedule/nest.h"

namespace bigmac::train {

Step declare_step(const Config& config, const data::Batch& batch) {
  Step step = step_of(config);
  for (const auto& microbatch : batch.microbatches) {
    step.encoder.push_back(microbatch.has_pictures());
    step.generator.push_back(microbatch.has_targets());
  }
  return step;
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
  schedule_ = make_schedule(declare_step(config_, batch));
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
