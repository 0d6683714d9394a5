#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "bigmac/runtime/executor.h"
#include "bigmac/runtime/gradients.h"

namespace bigmac {

struct ToyOptions {
  Step step;
  bool trained_encoder = true;
  uint64_t seed = 1;
};

// An encoder, stages and a generator of a matrix each, in double precision. Microbatches have different
// numbers of rows. What passes between two stages: a double and a float value with gradients, of different
// shapes, an int64 mask, and a float value without gradient. Every third microbatch has no loss of its own.
// Any rank can make the whole of it, and runs the stages of its own.
class ToyModel : public Model {
 public:
  ToyModel(const ToyOptions& options, int rank);

  Tensors encode(int microbatch) override;
  Output forward(int chunk, int microbatch, const Tensors& inputs) override;
  torch::Tensor generate(int microbatch, const Tensors& inputs) override;

  // Those of this rank's stages, and the encoder's and the generator's.
  NamedParameters parameters() const;

  // Called with every operator as it begins: forwards by the model, backwards when their gradient comes.
  std::function<void(const Operator&)> on_operator = [](const Operator&) {};
  bool every_loss = false;  // of microbatches: then every backward gets a gradient

 private:
  torch::Tensor watched(torch::Tensor value, const Operator& backward);

  ToyOptions options_;
  int rank_;
  std::vector<torch::Tensor> stages_;  // of all ranks
  torch::Tensor encoder_, generator_, first_;
};

struct ToyResult {
  double backbone_loss = 0;
  double generator_loss = 0;
  std::map<std::string, torch::Tensor> gradients;
};

// One backward a microbatch through the modules called one after the other: neither executor nor messages.
ToyResult run_plainly(const ToyOptions& options);

// One rank of a pipeline; the gradients and losses of all, on rank 0.
ToyResult run_rank(const ToyOptions& options, Transport& transport);

// The largest distance, relative to the larger of 1 and the value; infinite where names differ.
double distance(const ToyResult& a, const ToyResult& b);

// A nested or three-phase step with different microbatches with and without encoder input and target.
Step toy_step(int ranks, int chunks, int64_t microbatches, Arrangement arrangement);

}  // namespace bigmac
