#pragma once

#include <map>
#include <optional>
#include <vector>

#include "bigmac/nn/embed.h"
#include "bigmac/nn/head.h"
#include "bigmac/nn/moe.h"

namespace bigmac::nn {

struct DecoderConfig {
  int64_t vocabulary = 264;
  int64_t hidden = 128;
  int64_t layers = 8;
  int64_t heads = 4;
  int64_t kv_heads = 2;
  int64_t head_dim = 32;  // heads * head_dim need not be hidden
  int64_t ffn = 384;
  double rope_theta = 1e6;
  double eps = 1e-6;
  bool tied_embeddings = true;     // the head's matrix is the embedding table
  std::optional<MoeConfig> moe{};  // in every layer instead of the MLP of width ffn

  // Throws InvalidInput where sizes are not positive or do not divide each other.
  void check() const;
};

struct LayerOutput {
  torch::Tensor x;      // [B, L, hidden]
  RouterLosses losses;  // undefined tensors where the layer is dense
};

// A layer of the Qwen3 technical report (2025): pre-norm, grouped-query causal attention with an RMSNorm
// on every query and key head and rotary positions, then SwiGLU or the mixture of experts, no biases.
// Parameters: attention_norm, attention.*, mlp_norm, mlp.* (those of GatedMlp or of Moe).
class DecoderLayerImpl : public torch::nn::Module, public Residual {
 public:
  explicit DecoderLayerImpl(const DecoderConfig& config);

  // x [B, L, hidden], same; positions from rotary() with config.rope_theta, undefined = 0 to L - 1.
  torch::Tensor forward(const torch::Tensor& x, const Rotary& positions = {});
  // Also gives the router's losses over the valid tokens: mask [B, L] bool, undefined = all are valid.
  // Experts skip the others; the attention does not, so padding goes to the right.
  LayerOutput run(const torch::Tensor& x, const Rotary& positions = {}, const torch::Tensor& mask = {});

 private:
  int64_t hidden_, head_dim_;
  double rope_theta_;
  RmsNorm attention_norm_{nullptr}, mlp_norm_{nullptr};
  Attention attention_{nullptr};
  GatedMlp mlp_{nullptr};
  Moe moe_{nullptr};
};
TORCH_MODULE(DecoderLayer);

// The decoder, or the part of it which a pipeline stage holds: the layers of the given global indices,
// the embedding table where `embedding`, the final norm and the head where `head`. Parameter names do not
// depend on the cut: embedding.weight, layers.7.attention.q.weight, norm.weight, head.weight. With tied
// embeddings there is no head.weight; a part with `embedding` or `head` holds embedding.weight, once.
// The attention is causal and has no key mask: padding goes to the right of the real tokens.
// A call which needs what the part does not hold is InvalidInput.
class DecoderImpl : public Stack {
 public:
  // Throws InvalidInput for an index outside [0, config.layers) or one given twice.
  DecoderImpl(const DecoderConfig& config, std::vector<int64_t> layers, bool embedding, bool head);

  const DecoderConfig& config() const { return config_; }
  const std::vector<int64_t>& layers() const { return indices_; }
  bool has_embedding() const { return has_embedding_; }
  bool has_head() const { return has_head_; }

  // tokens [B, L] int64 -> [B, L, hidden]. pictures [n, T, hidden] (undefined or n = 0: none) belong to
  // the samples rows[0..n): the positions of sample rows[i] whose token is `picture_token` are replaced,
  // in order, by pictures[i]; where a sample is named k times it has k * T such positions. A sample with
  // another number of picture positions, or an id outside the vocabulary, is an error.
  // Waits for the device once, to look at the tokens.
  torch::Tensor embed(const torch::Tensor& tokens, const torch::Tensor& pictures,
                      const std::vector<int64_t>& rows, int64_t picture_token);
  // One layer, by its global index. [B, L, hidden] -> [B, L, hidden]
  torch::Tensor run(int64_t layer, const torch::Tensor& x);
  // Also gives the router's losses, over mask [B, L] as for the layer.
  LayerOutput run(int64_t layer, const torch::Tensor& x, const torch::Tensor& mask);
  // The final norm. [..., hidden] -> [..., hidden]
  torch::Tensor states(const torch::Tensor& x);
  // The head. states [..., hidden] -> [..., vocabulary]
  torch::Tensor logits(const torch::Tensor& states);

 private:
  DecoderConfig config_;
  std::vector<int64_t> indices_;
  bool has_embedding_, has_head_;
  torch::nn::Embedding embedding_{nullptr};
  std::map<int64_t, DecoderLayer> layers_;
  RmsNorm norm_{nullptr};
  torch::nn::Linear head_{nullptr};
};

class Decoder : public torch::nn::ModuleHolder<DecoderImpl> {
 public:
  using torch::nn::ModuleHolder<DecoderImpl>::ModuleHolder;
  using Impl = DecoderImpl;

  // All layers, the embedding table and the head.
  static Decoder whole(const DecoderConfig& config);
};

}  // namespace bigmac::nn
