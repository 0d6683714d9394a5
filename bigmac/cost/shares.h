#pragma once

#include "bigmac/cost/layer_time.h"

// What of a part one GPU does and keeps.
namespace bigmac::cost {

// Sequence parallelism cuts tokens, not what is one row a sequence.
inline double sequence_share(Rows rows, const Parallel& parallel) {
  return parallel.sequence() && rows != Rows::samples ? 1.0 / double(parallel.tensor) : 1.0;
}

// Of a part's work. Experts take the rows of the whole tensor group.
inline double share_of(const Part& part, const Parallel& parallel, const Training& training) {
  if (part.experts > 0) return training.expert_imbalance / double(parallel.tensor);
  return part.cut != Cut::none ? 1.0 / double(parallel.tensor) : sequence_share(part.rows, parallel);
}

// Whether the layer is one that recompute is for.
bool has_attention(const Layer& layer);
// Under selective recompute: whether a tensor that the backward needs is not kept.
bool runs_again(const Part& part, const Training& training);

}  // namespace bigmac::cost
