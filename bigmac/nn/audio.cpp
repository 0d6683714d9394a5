#include "bigmac/nn/audio.h"

#include <algorithm>
#include <cmath>

namespace bigmac::nn {
namespace {

torch::nn::Conv1d convolution(int64_t in, int64_t out, int64_t stride) {
  return torch::nn::Conv1d(torch::nn::Conv1dOptions(in, out, 3).stride(stride).padding(1));
}

torch::nn::LayerNorm layer_norm(int64_t width) {
  return torch::nn::LayerNorm(torch::nn::LayerNormOptions({width}));
}

// [n, longest] bool, true before the clip's length
torch::Tensor mask_of(const std::vector<int64_t>& lengths, int64_t longest, torch::Device device) {
  auto places = torch::arange(longest, torch::device(device).dtype(torch::kLong));
  return places < torch::tensor(lengths, torch::kLong).to(device).unsqueeze(1);
}

// [n, mels, longest], zero behind each clip
torch::Tensor pad_clips(const std::vector<torch::Tensor>& clips, int64_t longest) {
  std::vector<torch::Tensor> padded;
  for (const auto& clip : clips) padded.push_back(torch::constant_pad_nd(clip, {0, longest - clip.size(1)}));
  return torch::stack(padded);
}

}  // namespace

void AudioConfig::check() const {
  const char* what = "audio";
  expect_positive(what, "mels", mels);
  expect_positive(what, "hidden", hidden);
  expect_positive(what, "layers", layers);
  expect_positive(what, "heads", heads);
  expect_positive(what, "ffn", ffn);
  expect_positive(what, "merge", merge);
  expect_positive(what, "out", out);
  expect_divisible(what, "hidden", hidden, "heads", heads);
  expect_divisible(what, "hidden", hidden, "", 2);
  expect(hidden >= 4, what, ": hidden is ", hidden, ", expected at least 4");
}

AudioBlockImpl::AudioBlockImpl(const AudioConfig& config) : heads_(config.heads) {
  config.check();
  const auto hidden = config.hidden;
  attention_norm_ = register_module("attention_norm", layer_norm(hidden));
  q_ = register_module("q", torch::nn::Linear(hidden, hidden));
  k_ = register_module("k", torch::nn::Linear(torch::nn::LinearOptions(hidden, hidden).bias(false)));
  v_ = register_module("v", torch::nn::Linear(hidden, hidden));
  o_ = register_module("o", torch::nn::Linear(hidden, hidden));
  mlp_norm_ = register_module("mlp_norm", layer_norm(hidden));
  up_ = register_module("up", torch::nn::Linear(hidden, config.ffn));
  down_ = register_module("down", torch::nn::Linear(config.ffn, hidden));
}

torch::Tensor AudioBlockImpl::forward(torch::Tensor x, const torch::Tensor& mask) {
  auto y = attention_norm_(x);
  auto q = split_heads(q_(y), heads_), k = split_heads(k_(y), heads_), v = split_heads(v_(y), heads_);
  x = x + o_(join_heads(attend(q, k, v, false, mask)));
  return x + down_(safe_gelu(up_(mlp_norm_(x))));
}

AudioEncoderImpl::AudioEncoderImpl(const AudioConfig& config) : Stack(config.layers), config_(config) {
  config.check();
  const auto merged = config.merge * config.hidden;
  conv1_ = register_module("conv1", convolution(config.mels, config.hidden, 1));
  conv2_ = register_module("conv2", convolution(config.hidden, config.hidden, 2));
  register_module("blocks", blocks_);
  for (int64_t i = 0; i < config.layers; ++i) blocks_->push_back(AudioBlock(config));
  norm_ = register_module("norm", layer_norm(config.hidden));
  merge_in_ = register_module("merge_in", torch::nn::Linear(merged, merged));
  merge_out_ = register_module("merge_out", torch::nn::Linear(merged, config.out));
}

std::vector<torch::Tensor> AudioEncoderImpl::forward(const std::vector<torch::Tensor>& clips) {
  if (clips.empty()) return {};
  std::vector<int64_t> frames, halves, tokens;
  for (size_t i = 0; i < clips.size(); ++i) {
    expect_shape(clips[i], concat("clip ", i).c_str(), {config_.mels, any_size});
    frames.push_back(clips[i].size(1));
    expect(frames.back() > 0, "clip ", i, " has no frames");
    halves.push_back((frames.back() + 1) / 2);
    tokens.push_back(config_.tokens(frames.back()));
  }
  const auto longest = *std::max_element(frames.begin(), frames.end());
  const auto n = static_cast<int64_t>(clips.size());

  auto x = pad_clips(clips, longest);
  const auto device = x.device();
  x = safe_gelu(conv1_(x));
  // The second convolution reaches over a clip's end, where alone it would find zeros.
  x = x.masked_fill(mask_of(frames, longest, device).logical_not().unsqueeze(1), 0);
  x = safe_gelu(conv2_(x)).transpose(1, 2);  // [n, T, hidden]
  x = x + sinusoids(x.size(1), config_.hidden, x);
  auto mask = mask_of(halves, x.size(1), device);
  for (const auto& block : *blocks_) x = block->as<AudioBlock>()->forward(x, mask);
  x = norm_(x).masked_fill(mask.logical_not().unsqueeze(2), 0);

  const auto most = config_.tokens(longest);
  x = torch::constant_pad_nd(x, {0, 0, 0, most * config_.merge - x.size(1)});
  x = merge_out_(safe_gelu(merge_in_(x.reshape({n, most, config_.merge * config_.hidden}))));
  std::vector<torch::Tensor> results;
  for (int64_t i = 0; i < n; ++i) results.push_back(x[i].narrow(0, 0, tokens[i]));
  return results;
}

torch::Tensor sinusoids(int64_t frames, int64_t width, const torch::Tensor& like) {
  expect(width >= 4 && width % 2 == 0, "sinusoids: width ", width, ", expected an even number from 4 on");
  const auto options = torch::device(like.device()).dtype(torch::kDouble);
  const auto half = width / 2;
  auto rates = torch::exp(torch::arange(half, options) * (-std::log(1e4) / static_cast<double>(half - 1)));
  auto angles = torch::arange(frames, options).unsqueeze(1) * rates;
  return torch::cat({angles.sin(), angles.cos()}, 1).to(like.options());
}

}  // namespace bigmac::nn
