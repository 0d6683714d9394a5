#pragma once

#include "bigmac/nn/blocks.h"

namespace bigmac::nn {

// The decoder's end: an RMSNorm, then a matrix without bias. Parameters: norm.weight [hidden] and weight
// [vocabulary, hidden], which always belongs to the head; a tie to the embedding is made outside.
class DecoderHeadImpl : public torch::nn::Module {
 public:
  DecoderHeadImpl(int64_t hidden, int64_t vocabulary, double eps = 1e-6);
  const torch::Tensor& weight() const { return weight_; }

  torch::Tensor states(const torch::Tensor& x);       // the norm: [..., hidden] -> [..., hidden]
  torch::Tensor logits(const torch::Tensor& states);  // [..., hidden] -> [..., vocabulary]
  torch::Tensor forward(const torch::Tensor& x);      // logits(states(x))

 private:
  RmsNorm norm_;
  torch::Tensor weight_;
};
TORCH_MODULE(DecoderHead);

// The SUM over the positions of (log sum_v exp logits_v)^2 (PaLM, Chowdhery et al. 2022, section 5); the
// caller divides by the step's count of tokens. logits [..., vocabulary]; mask [...] bool, true = counts,
// undefined = all do. A scalar, in float32 for 16-bit logits.
torch::Tensor head_z_loss(const torch::Tensor& logits, const torch::Tensor& mask = {});

}  // namespace bigmac::nn
