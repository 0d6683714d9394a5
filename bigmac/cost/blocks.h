#pragma once

#include <string>
#include <vector>

#include "bigmac/cost/model.h"

// The blocks that layers are made of. What they keep is what torch's autograd keeps in bf16 when attention is
// FlashAttention, norms, rotary embeddings and gated activations are fused and nothing is dropped out: the
// input of each norm; the input of linear parts, once where several read it; q and k before their own norm;
// q, k, v, the output and the fp32 log-sum-exp of attention; gate and up of a gated activation. Selective
// recompute drops outputs of norms and activations, and q and k where they come from a norm.
namespace bigmac::cost {

struct AttentionShape {
  int64_t hidden = 0;
  int64_t heads = 0, kv_heads = 0, head_dim = 0;
  bool q_bias = false, k_bias = false, v_bias = false, o_bias = false;
  bool fused = false;    // q, k, v are one linear part, with q's bias
  bool qk_norm = false;  // RMSNorm over each head of q and k
  bool rope = true;
  bool causal = false;
  int64_t window = 0;  // as Part::window
  std::string prefix;  // "self_attn."
  std::string q = "q_proj", k = "k_proj", v = "v_proj", qkv = "qkv", o = "o_proj";
};
// From the norm's output to the output projection, tensor parallel by heads.
void add_attention(std::vector<Part>& parts, const AttentionShape& shape);

struct MlpShape {
  int64_t in = 0, ffn = 0, out = 0;
  bool bias = false;
  Rows rows = Rows::tokens;
  std::string prefix;                                                  // "mlp."
  std::string gate = "gate_proj", up = "up_proj", down = "down_proj";  // not gated: up and down
};
// down(silu(gate(x)) * up(x))
void add_gated_mlp(std::vector<Part>& parts, const MlpShape& shape);
// down(gelu(up(x)))
void add_mlp(std::vector<Part>& parts, const MlpShape& shape);

// Router, `experts` gated MLPs of which top_k see each row, and the sum of their outputs by probability.
// Experts are not cut by tensor parallelism. The router keeps its probabilities in fp32, the experts the rows
// sent to them, and the sum each expert's output, which the gradient of the probabilities needs.
void add_mixture(std::vector<Part>& parts, const MlpShape& shape, int64_t experts, int64_t top_k);

// Parts of attention, for blocks with two streams.
Part flash_attention(std::string name, int64_t heads, int64_t kv_heads, int64_t head_dim);
Part head_norm(std::string name, int64_t heads, int64_t head_dim);
// q and k, `width` elements together, rotated; `from_norm`: selective recompute drops them.
Part rotary(std::string name, int64_t width, bool from_norm);

}  // namespace bigmac::cost
