#pragma once

#include <torch/types.h>

#include <vector>

#include "bigmac/nn/head.h"

namespace bigmac::nn {

// Where no label counts.
inline constexpr int64_t kNoLabel = -100;

// The SUM of the cross entropy over the labels that count, in float32 at least; the caller divides. states
// [B, L, hidden] as DecoderHead::states gives them; of sample b labels [L_b <= L] int64, the next token at
// each position. Only positions with a label go through the head. Undefined where no label counts.
torch::Tensor text_loss(DecoderHeadImpl& head, const torch::Tensor& states,
                        const std::vector<torch::Tensor>& labels);

// Sequences [T_i, width] padded with zeros on the right to the longest.
struct PaddedStates {
  torch::Tensor x;     // [n, T, width]
  torch::Tensor mask;  // [n, T] bool, true = of the sequence
};
PaddedStates pad_states(const std::vector<torch::Tensor>& states);

}  // namespace bigmac::nn
