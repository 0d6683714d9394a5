#pragma once

#include <torch/nn.h>

#include <cstdint>

#include "bigmac/nn/check.h"

// What the three models share. Shapes: B samples, T tokens, H heads, G key/value heads, D head width.
// A tensor of a wrong shape and a configuration of illegal sizes are InvalidInput (check.h).
namespace bigmac::nn {

// The number of residual layers of the model that a module is or belongs to; initialise() scales by it.
class Residual {
 public:
  explicit Residual(int64_t layers) : depth_(layers) {}
  virtual ~Residual() = default;
  int64_t depth() const { return depth_; }

 private:
  int64_t depth_;
};

// A model of `depth` residual layers, of which an object may hold only some.
class Stack : public torch::nn::Module, public Residual {
 public:
  explicit Stack(int64_t layers) : Residual(layers) {}
};

// x / sqrt(mean(x^2) + eps) * weight over the last dimension (Zhang and Sennrich 2019).
// 16-bit inputs are normalised in float32.
class RmsNormImpl : public torch::nn::Module {
 public:
  explicit RmsNormImpl(int64_t width, double eps = 1e-6);
  torch::Tensor forward(const torch::Tensor& x);  // [..., width] -> [..., width]

 private:
  double eps_;
  torch::Tensor weight_;
};
TORCH_MODULE(RmsNorm);

// GELU, whose gradient is right for any layout. libtorch 1.13's own reads stray memory in float32 on the CPU
// where the gradient that it is given is not contiguous.
torch::Tensor safe_gelu(const torch::Tensor& x);

// SwiGLU (Shazeer 2020): down(silu(gate(x)) * up(x)), without biases.
class GatedMlpImpl : public torch::nn::Module {
 public:
  GatedMlpImpl(int64_t width, int64_t ffn);
  torch::Tensor forward(const torch::Tensor& x);  // [..., width] -> [..., width]

 private:
  torch::nn::Linear gate_, up_, down_;
};
TORCH_MODULE(GatedMlp);

// Rotary position embedding (Su et al. 2021). Channel i < D/2 is paired with channel i + D/2; the angles
// are taken in float64. cos, sin: [T, D/2]
struct Rotary {
  torch::Tensor cos, sin;
};

// Pair i turns by position * theta^(-2i / D); positions [T]. `like` gives the data type and the device.
Rotary rotary(const torch::Tensor& positions, int64_t head_dim, double theta, const torch::Tensor& like);

// For a grid of rows * columns tokens in row-major order: the first D/4 pairs turn by the row and the
// other D/4 by the column, each as a 1-D embedding of width D/2. head_dim must be divisible by 4.
Rotary axial_rotary(int64_t rows, int64_t columns, int64_t head_dim, double theta, const torch::Tensor& like);

// x [B, H, T, D] -> [B, H, T, D]
torch::Tensor rotate(const torch::Tensor& x, const Rotary& by);

// softmax(q k^T / sqrt(D)) v. q [B, H, Tq, D]; k, v [B, G, Tk, D], where query heads h * H/G ... use
// key/value head h; result [B, H, Tq, D]. causal: query t sees the keys 0..t (Tq = Tk).
// key_mask [B, Tk] bool, true = visible; undefined = all are. A query which sees no key gets NaN.
torch::Tensor attend(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v, bool causal,
                     const torch::Tensor& key_mask = {});

torch::Tensor split_heads(const torch::Tensor& x, int64_t heads);  // [B, T, H * D] -> [B, H, T, D]
torch::Tensor join_heads(const torch::Tensor& x);                  // [B, H, T, D] -> [B, T, H * D]

struct AttentionShape {
  int64_t width, heads, kv_heads, head_dim;
  bool causal = false;
  bool qk_norm = false;  // an RMSNorm over D on every query and key head, before the rotation
  double eps = 1e-6;
};

// Grouped-query self-attention with rotary positions, without biases.
// Parameters: q, k, v, o and, with qk_norm, q_norm and k_norm.
class AttentionImpl : public torch::nn::Module {
 public:
  explicit AttentionImpl(const AttentionShape& shape);
  torch::Tensor forward(const torch::Tensor& x, const Rotary& positions);  // [B, T, width], same

 private:
  AttentionShape shape_;
  torch::nn::Linear q_{nullptr}, k_{nullptr}, v_{nullptr}, o_{nullptr};
  RmsNorm q_norm_{nullptr}, k_norm_{nullptr};
};
TORCH_MODULE(Attention);

// x + attention(norm(x)), then x + mlp(norm(x)).
class TransformerBlockImpl : public torch::nn::Module {
 public:
  TransformerBlockImpl(const AttentionShape& shape, int64_t ffn);
  torch::Tensor forward(torch::Tensor x, const Rotary& positions);  // [B, T, width], same

 private:
  RmsNorm attention_norm_;
  Attention attention_;
  RmsNorm mlp_norm_;
  GatedMlp mlp_;
};
TORCH_MODULE(TransformerBlock);

// Pictures to patches in row-major order and back; a patch's values are ordered channel, row, column.
// [n, C, H, W] <-> [n, H/patch * W/patch, C * patch * patch]
torch::Tensor patchify(const torch::Tensor& pictures, int64_t patch);
torch::Tensor unpatchify(const torch::Tensor& patches, int64_t channels, int64_t height, int64_t width,
                         int64_t patch);

}  // namespace bigmac::nn
