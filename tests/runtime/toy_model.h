#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "bigmac/runtime/executor.h"
#include "bigmac/runtime/gradients.h"

namespace bigmac {

struct ToyOptions {
  Step step;                    // as declared
  std::vector<uint32_t> order;  // of its microbatches in the schedule; empty: as declared
  bool trained_encoders = true;
  bool every_loss = false;  // of microbatches: then every backward gets a gradient
  uint64_t seed = 1;
};

// The table of the step, in the order of the options.
Schedule toy_schedule(const ToyOptions& options);

// A call of the model, or a gradient's arrival in what it computed.
struct ToyCall {
  Module kind = Module::backbone;
  Phase phase = Phase::forward;
  int number = 0;                // the chunk; the encoder's or generator's number in the step
  std::vector<ModelItem> items;  // of a stage {microbatch, 0}

  bool operator==(const ToyCall&) const = default;
};

// Encoders, stages and generators of a matrix each, in double precision. Microbatches and items have
// different numbers of rows. What passes between two stages: a double and a float value with gradients, of
// different shapes, an int64 mask, and a float value without gradient. Every third microbatch has no loss of
// its own. Any rank can make the whole of it, and runs the stages of its own in `placed`.
class ToyModel : public Model {
 public:
  ToyModel(const ToyOptions& options, const Step& placed, int rank);

  std::vector<Bundle> encode(int module, std::span<const ModelItem> items) override;
  Output forward(int chunk, int microbatch, const Inputs& inputs) override;
  torch::Tensor generate(int module, std::span<const ModelItem> items,
                         const std::vector<Bundle>& inputs) override;

  // Those of this rank's stages, and all encoders' and generators'.
  NamedParameters parameters() const;

  // Called as a forward begins, and with a backward when its gradient comes.
  std::function<void(const ToyCall&)> on_call = [](const ToyCall&) {};

 private:
  torch::Tensor watched(torch::Tensor value, ToyCall call);

  ToyOptions options_;
  Dependencies placed_;
  int rank_;
  std::vector<std::vector<int>> counts_;         // items by module and microbatch as declared
  std::vector<torch::Tensor> stages_, modules_;  // of all ranks
  torch::Tensor first_;
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

// Two encoders ("image", 0 to 3 items a microbatch, of different sizes; "audio") and two generators
// ("drawing", "speech"). About half of the microbatches have no item of an encoder, or of a generator.
// V = 1 is 1f1b, more is interleaved.
Step toy_step(int64_t ranks, int64_t chunks, int64_t microbatches, Arrangement arrangement);

// A fixed permutation that leaves few microbatches where they were.
std::vector<uint32_t> toy_order(int64_t microbatches);

}  // namespace bigmac
