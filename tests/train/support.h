#pragma once

#include <map>
#include <string>

#include "bigmac/train/trainer.h"

namespace bigmac::train {

// A model small enough for double precision in a test, with more layers than stages do not divide.
Config small_config(int64_t pp, int64_t vpp, int64_t microbatches, const std::string& dtype);

// Pictures of noise under names of different lengths.
data::Dataset noise_dataset(int64_t pairs, int64_t side);

// The ordinary training loop on one rank, with none of the pipeline's code: whole modules, one backward a
// microbatch. It is what every pipeline must equal.
class PlainLoop {
 public:
  explicit PlainLoop(const Config& config);

  // The step's loss; leaves gradients in the parameters.
  double compute_gradients(const data::Batch& batch);
  double train_step(const data::Batch& batch, int64_t step);
  std::map<std::string, torch::Tensor> gradients();
  std::map<std::string, torch::Tensor> parameters();

 private:
  NamedParameters named();

  Config config_;
  nn::VisionEncoder encoder_;
  nn::Decoder decoder_;
  nn::DiffusionTransformer generator_;
  std::unique_ptr<torch::optim::AdamW> optimizer_;
};

// The largest relative distance over all parameters, |a - b| / |b| by norm; a zero gradient must be zero in
// both.
struct Difference {
  double most = 0;
  std::string name;
};
Difference largest_difference(const std::map<std::string, torch::Tensor>& got,
                              const std::map<std::string, torch::Tensor>& expected);

}  // namespace bigmac::train
