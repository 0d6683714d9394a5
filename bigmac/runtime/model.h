#pragma once

#include "bigmac/runtime/message.h"

namespace bigmac {

// What the executor runs on one rank: this rank's part of a model, bound to the current step's batch.
// Functions take values and return values under autograd; which rank or stage they came from is not their
// business. They must not write into their inputs. Losses are shares of one loss: each already divided by the
// step's counts, so that gradients add up.
class Model {
 public:
  virtual ~Model() = default;

  // The encoder's values of a microbatch, which the first stage takes.
  virtual Tensors encode(int microbatch) = 0;

  struct Output {
    Tensors values;  // for the next stage; of the last one, for the generator if the microbatch has a target
    torch::Tensor loss;  // of the last stage; undefined where the microbatch has none
  };
  // One stage: chunk `chunk` of this rank. `inputs` are the values of the stage before it, or of the encoder
  // (none where the microbatch has no encoder input).
  virtual Output forward(int chunk, int microbatch, const Tensors& inputs) = 0;

  // The generator's loss of a microbatch from the last stage's values.
  virtual torch::Tensor generate(int microbatch, const Tensors& inputs) = 0;
};

}  // namespace bigmac
