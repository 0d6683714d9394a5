#include "bigmac/nn/vision.h"

namespace bigmac::nn {
namespace {

constexpr double rope_theta = 1e4;

}  // namespace

void VisionConfig::check() const {
  const char* what = "vision";
  expect_positive(what, "picture", picture);
  expect_positive(what, "channels", channels);
  expect_positive(what, "patch", patch);
  expect_positive(what, "hidden", hidden);
  expect_positive(what, "layers", layers);
  expect_positive(what, "heads", heads);
  expect_positive(what, "ffn", ffn);
  expect_positive(what, "merge", merge);
  expect_positive(what, "out", out);
  expect_divisible(what, "picture", picture, "patch", patch);
  expect_divisible(what, "picture / patch", picture / patch, "merge", merge);
  expect_divisible(what, "hidden", hidden, "heads", heads);
  expect_divisible(what, "hidden / heads", hidden / heads, "", 4);
}

VisionEncoderImpl::VisionEncoderImpl(const VisionConfig& config) : Stack(config.layers), config_(config) {
  config.check();
  const auto merged = config.merge * config.merge * config.hidden;
  AttentionShape shape{config.hidden, config.heads, config.heads, config.hidden / config.heads};
  patch_ = register_module("patch",
                           torch::nn::Linear(config.channels * config.patch * config.patch, config.hidden));
  register_module("blocks", blocks_);
  for (int64_t i = 0; i < config.layers; ++i) blocks_->push_back(TransformerBlock(shape, config.ffn));
  norm_ = register_module("norm", RmsNorm(config.hidden));
  merge_in_ = register_module("merge_in", torch::nn::Linear(merged, merged));
  merge_out_ = register_module("merge_out", torch::nn::Linear(merged, config.out));
}

torch::Tensor VisionEncoderImpl::forward(const torch::Tensor& pictures) {
  expect_shape(pictures, "pictures", {any_size, config_.channels, config_.picture, config_.picture});
  const auto n = pictures.size(0), grid = config_.picture / config_.patch;
  const auto merge = config_.merge, side = grid / merge;

  auto x = patch_(patchify(pictures, config_.patch));
  auto positions = axial_rotary(grid, grid, config_.hidden / config_.heads, rope_theta, x);
  for (const auto& block : *blocks_) x = block->as<TransformerBlock>()->forward(x, positions);
  x = norm_(x)
          .view({n, side, merge, side, merge, config_.hidden})
          .permute({0, 1, 3, 2, 4, 5})
          .reshape({n, side * side, merge * merge * config_.hidden});
  return merge_out_(safe_gelu(merge_in_(x)));
}

}  // namespace bigmac::nn
