#pragma once

#include <functional>
#include <vector>

#include "bigmac/nn/blocks.h"

namespace bigmac::nn {

struct DiffusionConfig {
  int64_t picture = 32;  // side of a picture, in pixels
  int64_t channels = 3;
  int64_t patch = 4;  // side of a patch, in pixels
  int64_t hidden = 96;
  int64_t layers = 2;
  int64_t heads = 4;
  int64_t ffn = 384;
  int64_t text = 128;      // width of a text state, the decoder's hidden size
  double deviation = 0.7;  // of the pictures' values around 0, for the scaling below

  // Picture tokens per picture.
  int64_t tokens() const { return (picture / patch) * (picture / patch); }
  // Throws InvalidInput where sizes are not positive or do not divide each other.
  void check() const;
};

// One stream (picture or text) of a block. The modulation is a linear of silu(condition), the condition
// [n, hidden] being the embedded time: shift, scale and gate for the attention, then for the MLP.
// Parameters: modulation, q, k, v, q_norm, k_norm, o, up, down; of a stream with keys_only, whose tokens
// are read but not updated: modulation (shift and scale), k, v, k_norm.
class DiffusionStreamImpl : public torch::nn::Module {
 public:
  DiffusionStreamImpl(const DiffusionConfig& config, bool keys_only);

  // The modulation's chunks, [n, 1, hidden] each: six, or two with keys_only.
  std::vector<torch::Tensor> modulation(const torch::Tensor& condition);
  // Normalised and modulated x [n, T, hidden] to heads [n, H, T, D].
  torch::Tensor queries(const torch::Tensor& x);
  torch::Tensor keys(const torch::Tensor& x);
  torch::Tensor values(const torch::Tensor& x);
  // Adds the gated attention result and the gated MLP to x [n, T, hidden].
  torch::Tensor update(torch::Tensor x, const torch::Tensor& attended,
                       const std::vector<torch::Tensor>& modulation);

 private:
  int64_t heads_;
  torch::nn::Linear modulation_{nullptr}, q_{nullptr}, k_{nullptr}, v_{nullptr}, o_{nullptr};
  torch::nn::Linear up_{nullptr}, down_{nullptr};
  RmsNorm q_norm_{nullptr}, k_norm_{nullptr};
};
TORCH_MODULE(DiffusionStream);

// Two streams with their own weights and one attention over the tokens of both (Esser et al. 2024).
// In the last block nothing reads the text afterwards, so there the text stream only gives keys and values.
class DiffusionBlockImpl : public torch::nn::Module {
 public:
  DiffusionBlockImpl(const DiffusionConfig& config, bool last);

  // Updates picture [n, T, hidden] and, but for the last block, text [n, L, hidden].
  // key_mask [n, T + L] bool, picture tokens first; positions are those of the picture tokens.
  void forward(torch::Tensor& picture, torch::Tensor& text, const torch::Tensor& condition,
               const Rotary& positions, const torch::Tensor& key_mask);

 private:
  bool last_;
  DiffusionStream picture_, text_;
};
TORCH_MODULE(DiffusionBlock);

// Multimodal diffusion transformer which predicts the velocity of a rectified flow. What the noisy picture
// alone tells is not left to the network (Karras et al. 2022): with data of deviation s and v = (1-t)^2 s^2 +
// t^2, velocity = (t - (1-t) s^2) / v * x + s / sqrt(v) * network(x / sqrt(v)), so that the network sees and
// predicts values of deviation 1 at every time. Parameters: patch, text, time_in, time_out,
// blocks.I.{picture, text}.*, modulation, out.
class DiffusionTransformerImpl : public Stack {
 public:
  explicit DiffusionTransformerImpl(const DiffusionConfig& config);
  const DiffusionConfig& config() const { return config_; }

  // pictures [n, channels, picture, picture], time [n] in [0, 1], text [n, L, text], text_mask [n, L]
  // bool, true = real token (undefined: all are) -> velocity, shaped as pictures. n >= 1, L >= 1
  torch::Tensor forward(const torch::Tensor& pictures, const torch::Tensor& time, const torch::Tensor& text,
                        const torch::Tensor& text_mask);

 private:
  DiffusionConfig config_;
  torch::nn::Linear patch_{nullptr}, text_{nullptr}, time_in_{nullptr}, time_out_{nullptr};
  torch::nn::ModuleList blocks_;
  torch::nn::Linear modulation_{nullptr}, out_{nullptr};
};
TORCH_MODULE(DiffusionTransformer);

// time [n] -> [n, width]: cosines, then sines of 1000 * time * 10000^(-2i / width), i < width / 2
// (Ho et al. 2020). `like` gives the data type and the device.
torch::Tensor time_embedding(const torch::Tensor& time, int64_t width, const torch::Tensor& like);

// Rectified flow (Liu et al. 2022): x_t = (1 - t) picture + t noise has the velocity noise - picture.
// The SUM of the squared errors of the predicted velocity, a scalar; the caller divides.
// pictures, noise [n, channels, picture, picture]; time, text, text_mask as for the model.
torch::Tensor rectified_flow_loss(DiffusionTransformerImpl& model, const torch::Tensor& pictures,
                                  const torch::Tensor& noise, const torch::Tensor& time,
                                  const torch::Tensor& text, const torch::Tensor& text_mask);

// (x [n, ...], time [n]) -> dx/dtime, shaped as x
using Velocity = std::function<torch::Tensor(const torch::Tensor&, const torch::Tensor&)>;

// Euler steps of equal length from `noise` at time 1 to time 0, without gradients. steps >= 1
torch::Tensor integrate(const Velocity& velocity, const torch::Tensor& noise, int64_t steps);

// The pictures, shaped as noise, which the model makes of the text.
torch::Tensor sample_pictures(DiffusionTransformer& model, const torch::Tensor& text,
                              const torch::Tensor& text_mask, const torch::Tensor& noise, int64_t steps);

}  // namespace bigmac::nn
