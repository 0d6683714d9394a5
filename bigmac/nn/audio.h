#pragma once

#include <vector>

#include "bigmac/nn/blocks.h"

namespace bigmac::nn {

struct AudioConfig {
  int64_t mels = 80;
  int64_t hidden = 96;
  int64_t layers = 2;
  int64_t heads = 4;
  int64_t ffn = 384;
  int64_t merge = 2;  // neighbouring frames, after the convolutions, that become one token
  int64_t out = 128;  // width of a token, the decoder's hidden size

  // Tokens of a clip of `frames` log-mel frames: the second convolution halves them, both steps round up.
  int64_t tokens(int64_t frames) const { return ((frames + 1) / 2 + merge - 1) / merge; }
  void check() const;  // Throws InvalidInput where sizes are not positive or do not divide each other.
};

// A pre-norm block with LayerNorm, full attention and GELU; biases everywhere but on the keys.
// Parameters: attention_norm, q, k, v, o, mlp_norm, up, down.
class AudioBlockImpl : public torch::nn::Module {
 public:
  explicit AudioBlockImpl(const AudioConfig& config);
  // x [n, T, hidden], same; mask [n, T] bool, true = a frame of the clip
  torch::Tensor forward(torch::Tensor x, const torch::Tensor& mask);

 private:
  int64_t heads_;
  torch::nn::LayerNorm attention_norm_{nullptr}, mlp_norm_{nullptr};
  torch::nn::Linear q_{nullptr}, k_{nullptr}, v_{nullptr}, o_{nullptr}, up_{nullptr}, down_{nullptr};
};
TORCH_MODULE(AudioBlock);

// Whisper's encoder (Radford et al. 2022): convolutions of width 3 with strides 1 and 2 and GELU, sinusoidal
// positions, blocks, LayerNorm; then every `merge` neighbouring frames are concatenated (the last ones with
// zeros) and pass linear, GELU, linear into the decoder's width.
// Parameters: conv1, conv2, blocks.I.*, norm, merge_in, merge_out.
class AudioEncoderImpl : public Stack {
 public:
  explicit AudioEncoderImpl(const AudioConfig& config);
  const AudioConfig& config() const { return config_; }

  // Clips [mels, frames_i], of different lengths -> tokens [config.tokens(frames_i), out] of each. They are
  // padded and masked, so that a clip's tokens do not depend on the others. No clips give no tokens.
  std::vector<torch::Tensor> forward(const std::vector<torch::Tensor>& clips);

 private:
  AudioConfig config_;
  torch::nn::Conv1d conv1_{nullptr}, conv2_{nullptr};
  torch::nn::ModuleList blocks_;
  torch::nn::LayerNorm norm_{nullptr};
  torch::nn::Linear merge_in_{nullptr}, merge_out_{nullptr};
};
TORCH_MODULE(AudioEncoder);

// [frames, width]: sines, then cosines of t * 10000^(-i / (width/2 - 1)), i < width / 2, width even and at
// least 4. `like` gives the data type and the device.
torch::Tensor sinusoids(int64_t frames, int64_t width, const torch::Tensor& like);

}  // namespace bigmac::nn
