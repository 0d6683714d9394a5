#pragma once

#include <torch/types.h>

#include <map>
#include <utility>

namespace bigmac {

// Sums of 16-bit floats are taken in float32 and rounded once.
torch::ScalarType sum_type(torch::ScalarType dtype);

// One sum a step, over turns 0, 1, ... in their order. Parts that come ahead of their turn or step are held.
class TurnSum {
 public:
  explicit TurnSum(torch::Device device) : device_(device) {}

  // Throws InvalidInput where the turn is there already.
  void add(int64_t step, int64_t turn, const torch::Tensor& part);
  // Whether the current step has taken turns 0..turns-1.
  bool has(int64_t turns) const { return next_ >= turns; }
  // Ends the step. Throws InvalidInput where it has other turns than 0..turns-1; undefined where turns is 0.
  torch::Tensor take(int64_t turns);

 private:
  void take_what_is_due();

  torch::Device device_;
  int64_t step_ = 0, next_ = 0;
  torch::Tensor sum_;
  torch::ScalarType dtype_ = torch::kFloat32;                  // of the parts
  std::map<std::pair<int64_t, int64_t>, torch::Tensor> held_;  // by step and turn
};

}  // namespace bigmac
