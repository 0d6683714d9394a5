#pragma once

#include "bigmac/nn/blocks.h"

namespace bigmac::nn {

struct VisionConfig {
  int64_t picture = 32;  // side of a picture, in pixels
  int64_t channels = 3;
  int64_t patch = 4;  // side of a patch, in pixels
  int64_t hidden = 96;
  int64_t layers = 2;
  int64_t heads = 4;
  int64_t ffn = 256;
  int64_t merge = 2;  // merge * merge neighbouring patches become one token
  int64_t out = 128;  // width of a token, the decoder's hidden size

  // Tokens per picture.
  int64_t tokens() const { return (picture / patch / merge) * (picture / patch / merge); }
  // Throws InvalidInput where sizes are not positive or do not divide each other.
  void check() const;
};

// Vision transformer over the patches of a picture: linear patch embedding, pre-norm blocks with full
// attention under 2-D rotary positions, RMSNorm, then every merge * merge neighbours are concatenated
// and pass linear, GELU, linear.
// Parameters: patch, blocks.I.{attention_norm, attention, mlp_norm, mlp}, norm, merge_in, merge_out.
class VisionEncoderImpl : public Stack {
 public:
  explicit VisionEncoderImpl(const VisionConfig& config);
  const VisionConfig& config() const { return config_; }

  // [n, channels, picture, picture], n >= 1 -> [n, tokens, out]; tokens in row-major order
  torch::Tensor forward(const torch::Tensor& pictures);

 private:
  VisionConfig config_;
  torch::nn::Linear patch_{nullptr};
  torch::nn::ModuleList blocks_;
  RmsNorm norm_{nullptr};
  torch::nn::Linear merge_in_{nullptr}, merge_out_{nullptr};
};
TORCH_MODULE(VisionEncoder);

}  // namespace bigmac::nn
