#pragma once

#include <string>
#include <utility>
#include <vector>

#include "bigmac/runtime/transport.h"

namespace bigmac {

using NamedParameters = std::vector<std::pair<std::string, torch::Tensor>>;

// Gradients over all ranks. A parameter that several ranks hold under one name (a replicated encoder, an
// embedding tied to the head) is one parameter: its gradient is the sum over its holders.
class SharedGradients {
 public:
  // All ranks call it together. Throws Failure where ranks hold different shapes under one name, or
  // some train it and some do not.
  SharedGradients(Transport& transport, NamedParameters parameters);

  // Sums the gradients of shared parameters; every parameter of this rank has a gradient then, zero where no
  // operator gave it one.
  void sum();

  // Scales all gradients so that their norm over all parameters of all ranks is at most `most`; returns the
  // norm before. Each parameter counts once. Call it after sum().
  double clip_norm(double most);

  // Parameters that no rank below this one holds: all of the model, once, over all ranks.
  NamedParameters owned() const;

 private:
  struct Group {
    std::vector<int> holders;  // ascending
    std::vector<torch::Tensor> parameters;
  };
  void sum_over_all(const Group& group);
  void sum_over_some(const Group& group);

  Transport& transport_;
  NamedParameters parameters_;
  std::vector<bool> owned_;
  std::vector<Group> groups_;
};

}  // namespace bigmac
