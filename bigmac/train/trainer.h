#pragma once

#include <functional>
#include <memory>

#include "bigmac/runtime/executor.h"
#include "bigmac/schedule/costs.h"
#include "bigmac/train/multimodal.h"
#include "bigmac/train/optimizer.h"

namespace bigmac::train {

// The declaration of a step: counts from the configuration, pictures and targets of the batch as items.
Step declare_step(const Config& config, const data::Batch& batch);

// What places of encoder and generator work, and orders, are chosen with: operators as long as their tokens
// times the parameters that these pass, in units of a stage's forward of a mean microbatch.
Costs nominal_costs(const Config& config, const data::Batch& batch);

// What a step came to, the same on every rank.
struct StepFigures {
  int64_t step = 0;
  double backbone_loss = 0;   // per valid token, in nats
  double generator_loss = 0;  // per value of the targets, times the generator's weight
  double gradient_norm = 0;   // before clipping
  double learning_rate = 0;
  double seconds = 0;
  int64_t samples = 0;

  double loss() const { return backbone_loss + generator_loss; }
};

// One rank of a training run.
class Trainer {
 public:
  // The dataset and the transport must outlive it; all ranks make theirs together.
  Trainer(const Config& config, const data::Dataset& dataset, Transport& transport,
          std::shared_ptr<MemoryLedger> ledger = nullptr);

  // Forward and backward of one batch: afterwards every parameter's grad is that of the whole step's loss.
  StepFigures compute_gradients(int64_t step);
  // The same, then clips and updates the parameters.
  StepFigures train_step(int64_t step);

  // Of the last step.
  const Schedule& schedule() const { return schedule_; }
  // Gathers the last step's timeline; all ranks call it together.
  Timeline timeline();

  Multimodal& model() { return model_; }
  // All parameters by global name, on rank 0; empty elsewhere. All ranks call it together.
  std::map<std::string, torch::Tensor> gather_parameters();
  std::map<std::string, torch::Tensor> gather_gradients();  // likewise

 private:
  Config config_;
  const data::Dataset& dataset_;
  Transport& transport_;
  std::shared_ptr<MemoryLedger> ledger_;
  Multimodal model_;
  SharedGradients gradients_;
  Optimizer optimizer_;
  Schedule schedule_;
  Timeline::Row record_;
  double began_ = 0, ended_ = 0;
};

}  // namespace bigmac::train
