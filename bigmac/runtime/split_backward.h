#pragma once

#include <torch/csrc/autograd/edge.h>

#include "bigmac/runtime/message.h"

namespace bigmac {

// What is left of a graph when the gradients of its inputs have been computed: as much as those of its other
// leaves take. The gradients at which parameters branch off are kept, so nothing is computed twice.
class WeightBackward {
 public:
  // Accumulates into the leaves' grad, and lets the rest of the graph go.
  void run();

 private:
  friend struct SplitBackward;
  std::vector<torch::autograd::Edge> edges_;
  Tensors gradients_;
};

// A backward in two parts. The first, at once: the gradients of `inputs`, which are leaves, given those of
// `roots`; undefined for an input that the roots do not depend on. Where nothing depends on an input it
// computes nothing, and the second part is the whole backward. What the second part does not need of the
// graph is let go.
struct SplitBackward {
  SplitBackward(const Tensors& roots, const Tensors& gradients, const Tensors& inputs);

  Tensors input_gradients;  // one an input
  WeightBackward weights;
};

}  // namespace bigmac
