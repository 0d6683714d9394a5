#pragma once

#include <string>

#include "bigmac/cost/model.h"

// Builders of single parts, and of what they keep for their backward.
namespace bigmac::cost {

Part linear(std::string name, int64_t in, int64_t out, bool bias, Cut cut);
Part norm(std::string name, int64_t width, bool bias);  // RMSNorm; with bias LayerNorm
Part elementwise(std::string name, int64_t in, int64_t out);
Part embedding(std::string name, int64_t entries, int64_t width, Cut cut);
Part attention(std::string name, int64_t heads, int64_t kv_heads, int64_t head_dim);

// A tensor in bf16, and what else holds of it.
Saved kept(std::string name, int64_t width);
Saved cut(Saved saved);             // divided by tensor parallelism
Saved for_weights(Saved saved);     // needed for the weight gradient alone
Saved computed_again(Saved saved);  // dropped by selective recompute
Saved with_bytes(Saved saved, double bytes);

// The norm that opens a block: its output is read by the linear parts behind it. A layer's first norm keeps
// its input; that of the others is kept by the residual that makes it.
Part block_norm(std::string name, int64_t width, bool bias, bool first);
// x + y, kept as the input of a norm behind it where `kept_sum`; elsewhere it is the input of the next layer.
Part residual(std::string name, int64_t width, bool kept_sum);

// The GPT layer of Korthikanti et al. 2022 (arXiv 2205.05198): LayerNorm, biases, GELU between 4 hidden,
// dropout, and a softmax whose output is kept. It keeps s b h (34 + 5 a s / h) bytes for b sequences of s
// tokens and a heads; s b h (10 + 24 / t + 5 a s / (h t)) on each of t tensor ranks without sequence
// parallelism. Selective recompute drops the tensors of s^2 elements alone.
Layer gpt_layer(int64_t hidden, int64_t heads);

}  // namespace bigmac::cost
