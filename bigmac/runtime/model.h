#pragma once

#include <span>

#include "bigmac/runtime/message.h"

namespace bigmac {

// An item of one encoder or generator, as the step's caller numbers them.
struct ModelItem {
  int microbatch = 0;  // as declared, wherever the schedule runs it (Step::order)
  int number = 0;      // within the microbatch, from 0

  bool operator==(const ModelItem&) const = default;
};

// Values of one microbatch's items: by module (Step::modules), then by number. A module that has none may be
// left out behind the others.
using ItemValues = std::vector<std::vector<Tensors>>;

// What the executor runs on one rank: this rank's part of a model, bound to the current step's batch.
// Functions take values and return values under autograd; which rank or stage they came from is not their
// business. They must not write into their inputs. Losses are shares of one loss: each already divided by the
// step's counts, so that gradients add up.
//
// Where the base splits backwards, a stage's graph is gone through twice, once for its inputs and once for
// its parameters: a hook on a tensor may then be called twice.
class Model {
 public:
  virtual ~Model() = default;

  // The values of each of these items, which the first stage takes. They may be of several microbatches.
  virtual std::vector<Tensors> encode(int module, std::span<const ModelItem> items) = 0;

  struct Inputs {
    Tensors values;    // of the stage before; none on the first stage
    ItemValues items;  // on the first stage, what the encoders made of the microbatch's items
  };
  struct Output {
    Tensors values;      // for the next stage; unused of the last one
    torch::Tensor loss;  // of the last stage; undefined where the microbatch has none
    ItemValues items;    // of the last stage, what each of the microbatch's generator items takes
  };
  // One stage: chunk `chunk` of this rank.
  virtual Output forward(int chunk, int microbatch, const Inputs& inputs) = 0;

  // The loss of these items together, from what the last stage gave for each.
  virtual torch::Tensor generate(int module, std::span<const ModelItem> items,
                                 const std::vector<Tensors>& inputs) = 0;
};

}  // namespace bigmac
