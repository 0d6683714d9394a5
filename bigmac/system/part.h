#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bigmac/system/system.h"

namespace bigmac {

struct Precision {
  torch::Device device = torch::kCPU;
  torch::ScalarType dtype = torch::kFloat32;
};

// What sums and main weights of a dtype are in: float32 for 16 bits, else the dtype itself.
torch::ScalarType main_dtype(torch::ScalarType dtype);

// One module of the system, or one part of its backbone, as a rank holds it.
struct PartModule {
  std::string prefix;  // "vision.", "llm.layers.7."
  std::shared_ptr<torch::nn::Module> module;
};

// Makes a module with the values that `seed` and its prefix give it, wherever it stands: what its constructor
// and the system's initialise() draw from libtorch's default generators follows these alone.
PartModule make_part(const System& system, const std::string& prefix, const MakeModule& make, uint64_t seed,
                     const Precision& precision);

// A parameter by its global name. Where a tie puts it in several modules of a rank it has several leaves that
// share their values; its gradient is the sum of theirs.
struct Parameter {
  std::string name;
  Tensors leaves;

  bool trained() const { return leaves[0].requires_grad(); }
};

// Which parameters are trained, by patterns of their names ("vision.*", "*.projector.*"; * and ? as in file
// names): all, but those that match one of `freeze` and none of `train`.
struct Trained {
  std::vector<std::string> freeze{}, train{};

  bool operator()(const std::string& name) const;
};
bool matches(const std::string& pattern, const std::string& name);

}  // namespace bigmac
