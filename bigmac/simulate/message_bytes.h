#pragma once

#include "bigmac/schedule/dependencies.h"
#include "bigmac/simulate/links.h"

namespace bigmac {

// What the messages of a table hold (links.h). Throws InvalidInput where the links do not fit the step.
class MessageBytes {
 public:
  MessageBytes(const Schedule& schedule, const Dependencies& dependencies, const Links& links);

  double of_stage() const { return stage_; }
  // An encoder share's output, or the gradient that a generator's share gives.
  double of_share(int64_t share) const { return share_[share]; }
  // What B(0, m) hands the encoder operators of a rank, or F(last, m) its generators.
  double of_microbatch(Phase phase, int64_t m, int rank) const {
    return by_rank_[phase == Phase::forward][m * ranks_ + rank];
  }

 private:
  int64_t ranks_;
  double stage_;
  std::vector<double> share_;
  std::vector<double> by_rank_[2];  // gradients to encoders, states to generators; by microbatch and rank
};

}  // namespace bigmac
