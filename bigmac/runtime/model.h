#pragma once

#include <span>

#include "bigmac/runtime/message.h"
#include "bigmac/schedule/operator.h"

namespace bigmac {

// An item of one encoder or generator, as the step's caller numbers them.
struct ModelItem {
  int microbatch = 0;  // as declared, wherever the schedule runs it (Step::order)
  int number = 0;      // within the microbatch, from 0

  bool operator==(const ModelItem&) const = default;
};

// Values of one microbatch's items: by module (Step::modules), then by number. A module that has none may be
// left out behind the others.
using ItemValues = std::vector<std::vector<Bundle>>;

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
  virtual std::vector<Bundle> encode(int module, std::span<const ModelItem> items) = 0;

  struct Inputs {
    Bundle values;            // of the stage before; none on the first stage
    ItemValues items;         // on the first stage, what the encoders made of the microbatch's items
    bool recomputed = false;  // the same call again, for its backward: its loss has been counted
  };
  struct Output {
    Bundle values;       // for the next stage; unused of the last one
    torch::Tensor loss;  // of the stage; undefined where the microbatch has none there
    ItemValues items;    // of the last stage, what each of the microbatch's generator items takes
  };
  // One stage: chunk `chunk` of this rank.
  virtual Output forward(int chunk, int microbatch, const Inputs& inputs) = 0;

  // The loss of these items together, from what the last stage gave for each.
  virtual torch::Tensor generate(int module, std::span<const ModelItem> items,
                                 const std::vector<Bundle>& inputs) = 0;

  // Whether what this rank's forwards of an encoder (Step::modules), or of the backbone, keep is let go at
  // once and made anew before their backward.
  virtual bool recomputes_encoder(int module) const { return false; }
  virtual bool recomputes_backbone() const { return false; }
};

// Sees every operator of its rank's row.
class RowObserver {
 public:
  virtual ~RowObserver() = default;
  virtual void before(int64_t position, const Operator& op) {}
  virtual void after(int64_t position, const Operator& op) {}
};

}  // namespace bigmac
