#pragma once

#include <torch/optim/adamw.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "bigmac/demo/batches.h"
#include "bigmac/demo/model.h"

namespace bigmac::demo {

// A model small enough for double precision in a test, with more layers than stages do not divide.
Config small_config(int64_t pp, int64_t vpp, int64_t microbatches, const std::string& dtype = "float64");

// Pictures of noise under names of different lengths.
data::Dataset noise_dataset(int64_t pairs, int64_t side);

// The ordinary training loop on one rank, with none of the pipeline's code and no System: nn's modules one
// after the other, an encoder item or target at a time, one backward a microbatch.
class PlainLoop {
 public:
  explicit PlainLoop(const Config& config);

  // Of the samples of one step; leaves gradients in the parameters.
  double compute_gradients(const std::vector<Values>& samples);
  double train_step(const std::vector<Values>& samples, int64_t step);
  std::map<std::string, torch::Tensor> gradients() const;
  // Of the last step, weighted, by name.
  const std::map<std::string, double>& losses() const { return losses_; }

 private:
  struct Counts {
    double labels = 0, tokens = 0, values = 0;
  };
  void add(const std::string& prefix, torch::nn::Module& module);
  torch::Tensor real(const torch::Tensor& tensor) const { return tensor.to(dtype_); }
  torch::Tensor embed(const std::vector<Values>& samples, const torch::Tensor& tokens);
  torch::Tensor drawing_error(const Values& sample, const torch::Tensor& text);
  torch::Tensor loss(const std::vector<Values>& microbatch, const Counts& counts);

  Config config_;
  torch::ScalarType dtype_;
  nn::VisionEncoder vision_;
  nn::AudioEncoder audio_{nullptr};
  torch::nn::Embedding embedding_;
  std::vector<nn::DecoderLayer> layers_;
  nn::DecoderHead head_;
  nn::DiffusionTransformer drawing_;
  std::map<std::string, torch::Tensor> parameters_;
  std::map<std::string, double> losses_;
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

}  // namespace bigmac::demo
