#pragma once

#include "bigmac/cost/model.h"

namespace bigmac::cost {

// Parameters of all parts that are not tied; of those, the ones in experts; and of all but the experts that a
// row does not see. A table that is only looked up (an embedding) counts as active.
struct Parameters {
  int64_t all = 0;
  int64_t experts = 0;
  int64_t active = 0;

  Parameters& operator+=(const Parameters& other);
  bool operator==(const Parameters&) const = default;
};
Parameters parameters(const Part& part);
Parameters parameters(const Layer& layer);
Parameters parameters(const Model& model);

// Floating point operations, a multiplication and an addition counted as two. linear: 2 in out a row (top_k
// times in a mixture, per_row times); attention: 4 heads head_dim keys a row; all else 0: it moves bytes.
// `input`: gradient of the input. Attention's is 2.5 times its forward, since q k^T is computed again
// (FlashAttention-2, Dao 2023); a linear part's equals its forward. Embeddings and parts that read data have
// none.
// `weight`: gradient of the weights, equal to the forward of a linear part, 0 for attention.
struct Flops {
  double forward = 0;
  double input = 0;
  double weight = 0;

  double all() const { return forward + input + weight; }
  Flops& operator+=(const Flops& other);
};
Flops flops(const Part& part, const Sequences& sequences);
Flops flops(const Layer& layer, const Sequences& sequences);
Flops flops(const Model& model, Sequences sequences);  // merges as the model does, whatever `merge` says

}  // namespace bigmac::cost
