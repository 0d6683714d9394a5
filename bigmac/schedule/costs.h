#pragma once

#include <vector>

#include "bigmac/schedule/step.h"

namespace bigmac {

// What operators take, as constants per module and stage, in one unit of time throughout.
struct Costs {
  std::vector<double> forward{1.0};   // backbone, of one stage: one value for all stages, or one a stage
  std::vector<double> backward{2.0};  // likewise
  double encoder_forward = 0;         // of one microbatch on one rank
  double encoder_backward = 0;
  double generator_forward = 0;
  double generator_backward = 0;
  double latency = 0;  // of a message between two ranks
};

// Costs resolved for the operators of one step. Throws InvalidInput for negative or non-finite costs and for
// lists that are neither one value nor one a stage.
class Durations {
 public:
  Durations(const Step& step, const Costs& costs);

  double operator()(int rank, const Operator& op) const {
    if (op.module == Module::backbone)
      return backbone_[op.phase == Phase::backward][op.chunk * ranks_ + rank];
    if (op.module == Module::encoder) return encoder_[op.phase == Phase::backward];
    return generator_;
  }
  double latency() const { return latency_; }
  double longest_backbone() const { return longest_backbone_; }

 private:
  int64_t ranks_;
  std::vector<double> backbone_[2];
  double encoder_[2];
  double generator_;
  double latency_;
  double longest_backbone_;
};

}  // namespace bigmac
