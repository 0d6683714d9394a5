#pragma once

#include <vector>

#include "bigmac/cost/model.h"

namespace bigmac::cost {

// Pre-norm decoder with grouped-query attention and gated MLPs or mixtures of experts.
struct DecoderShape {
  int64_t layers = 0, hidden = 0, heads = 0, kv_heads = 0, head_dim = 0, vocabulary = 0;
  int64_t ffn = 0;  // of dense layers
  bool qkv_bias = false, o_bias = false, mlp_bias = false;
  bool qk_norm = false;
  bool tied = false;  // the head is the embedding table

  int64_t experts = 0, top_k = 0, expert_ffn = 0;
  std::vector<bool> sparse{};  // by layer, whether it is a mixture; empty: none is
};
// Layers: "embedding"; "layer", or "moe layer"; "head", which is the final norm, the projection to the
// vocabulary and the cross-entropy, which keeps fp32 logits.
Model decoder_model(const DecoderShape& shape);

}  // namespace bigmac::cost
