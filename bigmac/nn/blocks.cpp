#include "bigmac/nn/blocks.h"

#include <torch/autograd.h>

#include <cmath>
#include <limits>

namespace bigmac::nn {
namespace {

torch::nn::Linear linear(int64_t in, int64_t out) {
  return torch::nn::Linear(torch::nn::LinearOptions(in, out).bias(false));
}

// [T, pairs] float64
torch::Tensor angles(const torch::Tensor& positions, int64_t pairs, double theta) {
  auto index = torch::arange(pairs, torch::device(positions.device()).dtype(torch::kDouble));
  auto frequencies = torch::exp(index * (-std::log(theta) / static_cast<double>(pairs)));
  return positions.to(torch::kDouble).unsqueeze(1) * frequencies;
}

Rotary rotary_of(const torch::Tensor& angle, const torch::Tensor& like) {
  return {angle.cos().to(like.options()), angle.sin().to(like.options())};
}

struct ContiguousGradient : torch::autograd::Function<ContiguousGradient> {
  static torch::Tensor forward(torch::autograd::AutogradContext*, const torch::Tensor& x) {
    return x.view_as(x);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext*,
                                                 torch::autograd::variable_list gradients) {
    return {gradients[0].contiguous()};
  }
};

}  // namespace

torch::Tensor safe_gelu(const torch::Tensor& x) {
  return ContiguousGradient::apply(torch::gelu(x));
}

RmsNormImpl::RmsNormImpl(int64_t width, double eps)
    : eps_(eps), weight_(register_parameter("weight", torch::ones({width}))) {}

torch::Tensor RmsNormImpl::forward(const torch::Tensor& x) {
  expect_width(x, "input of the RMSNorm", weight_.size(0));
  auto type = x.scalar_type();
  auto wide = type == torch::kHalf || type == torch::kBFloat16 ? x.to(torch::kFloat) : x;
  auto scale = torch::rsqrt(wide.square().mean(-1, /*keepdim=*/true) + eps_);
  return (wide * scale).to(type) * weight_;
}

GatedMlpImpl::GatedMlpImpl(int64_t width, int64_t ffn)
    : gate_(register_module("gate", linear(width, ffn))),
      up_(register_module("up", linear(width, ffn))),
      down_(register_module("down", linear(ffn, width))) {}

torch::Tensor GatedMlpImpl::forward(const torch::Tensor& x) {
  expect_width(x, "input of the gated MLP", gate_->options.in_features());
  return down_(torch::silu(gate_(x)) * up_(x));
}

Rotary rotary(const torch::Tensor& positions, int64_t head_dim, double theta, const torch::Tensor& like) {
  expect_shape(positions, "positions", {any_size});
  expect(head_dim > 0 && head_dim % 2 == 0, "rotary embedding: head width ", head_dim,
         " is not divisible by 2");
  return rotary_of(angles(positions.to(like.device()), head_dim / 2, theta), like);
}

Rotary axial_rotary(int64_t rows, int64_t columns, int64_t head_dim, double theta,
                    const torch::Tensor& like) {
  expect(head_dim > 0 && head_dim % 4 == 0, "axial rotary embedding: head width ", head_dim,
         " is not divisible by 4");
  auto on_device = torch::device(like.device()).dtype(torch::kLong);
  auto row = torch::arange(rows, on_device).repeat_interleave(columns);
  auto column = torch::arange(columns, on_device).repeat({rows});
  auto angle = torch::cat({angles(row, head_dim / 4, theta), angles(column, head_dim / 4, theta)}, 1);
  return rotary_of(angle, like);
}

torch::Tensor rotate(const torch::Tensor& x, const Rotary& by) {
  expect_shape(x, "input of the rotation", {any_size, any_size, by.cos.size(0), 2 * by.cos.size(1)});
  auto halves = x.chunk(2, -1);
  return torch::cat({halves[0] * by.cos - halves[1] * by.sin, halves[1] * by.cos + halves[0] * by.sin}, -1);
}

torch::Tensor attend(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v, bool causal,
                     const torch::Tensor& key_mask) {
  expect_shape(q, "queries", {any_size, any_size, any_size, any_size});
  const auto batch = q.size(0), heads = q.size(1), queries = q.size(2), width = q.size(3);
  expect_shape(k, "keys", {batch, any_size, causal ? queries : any_size, width});
  const auto groups = k.size(1), keys = k.size(2);
  expect_shape(v, "values", {batch, groups, keys, any_size});
  expect(heads % groups == 0, "queries: ", heads, " heads are not divisible by the ", groups,
         " heads of the keys");

  auto grouped = q.reshape({batch, groups, heads / groups * queries, width});
  auto scores = torch::matmul(grouped, k.transpose(-2, -1)) / std::sqrt(static_cast<double>(width));
  scores = scores.view({batch, groups, heads / groups, queries, keys});
  const double hidden = -std::numeric_limits<double>::infinity();
  if (causal) {
    auto ones = torch::ones({queries, keys}, torch::device(q.device()).dtype(torch::kBool));
    scores = scores.masked_fill(ones.triu(1), hidden);
  }
  if (key_mask.defined()) {
    expect_shape(key_mask, "key mask", {batch, keys});
    expect_type(key_mask, "key mask", torch::kBool);
    scores = scores.masked_fill(key_mask.logical_not().view({batch, 1, 1, 1, keys}), hidden);
  }
  auto weights = torch::softmax(scores, -1).view({batch, groups, heads / groups * queries, keys});
  return torch::matmul(weights, v).view({batch, heads, queries, v.size(3)});
}

torch::Tensor split_heads(const torch::Tensor& x, int64_t heads) {
  return x.reshape({x.size(0), x.size(1), heads, x.size(2) / heads}).transpose(1, 2);
}

torch::Tensor join_heads(const torch::Tensor& x) {
  return x.transpose(1, 2).flatten(2);
}

AttentionImpl::AttentionImpl(const AttentionShape& shape) : shape_(shape) {
  q_ = register_module("q", linear(shape.width, shape.heads * shape.head_dim));
  k_ = register_module("k", linear(shape.width, shape.kv_heads * shape.head_dim));
  v_ = register_module("v", linear(shape.width, shape.kv_heads * shape.head_dim));
  o_ = register_module("o", linear(shape.heads * shape.head_dim, shape.width));
  if (shape.qk_norm) {
    q_norm_ = register_module("q_norm", RmsNorm(shape.head_dim, shape.eps));
    k_norm_ = register_module("k_norm", RmsNorm(shape.head_dim, shape.eps));
  }
}

torch::Tensor AttentionImpl::forward(const torch::Tensor& x, const Rotary& positions) {
  expect_shape(x, "input of the attention", {any_size, any_size, shape_.width});
  auto q = split_heads(q_(x), shape_.heads);
  auto k = split_heads(k_(x), shape_.kv_heads);
  auto v = split_heads(v_(x), shape_.kv_heads);
  if (shape_.qk_norm) {
    q = q_norm_(q);
    k = k_norm_(k);
  }
  return o_(join_heads(attend(rotate(q, positions), rotate(k, positions), v, shape_.causal)));
}

TransformerBlockImpl::TransformerBlockImpl(const AttentionShape& shape, int64_t ffn)
    : attention_norm_(register_module("attention_norm", RmsNorm(shape.width, shape.eps))),
      attention_(register_module("attention", Attention(shape))),
      mlp_norm_(register_module("mlp_norm", RmsNorm(shape.width, shape.eps))),
      mlp_(register_module("mlp", GatedMlp(shape.width, ffn))) {}

torch::Tensor TransformerBlockImpl::forward(torch::Tensor x, const Rotary& positions) {
  x = x + attention_(attention_norm_(x), positions);
  return x + mlp_(mlp_norm_(x));
}

torch::Tensor patchify(const torch::Tensor& pictures, int64_t patch) {
  expect_shape(pictures, "pictures", {any_size, any_size, any_size, any_size});
  const auto n = pictures.size(0), channels = pictures.size(1);
  const auto rows = pictures.size(2) / patch, columns = pictures.size(3) / patch;
  expect_shape(pictures, "pictures", {n, channels, rows * patch, columns * patch});
  return pictures.reshape({n, channels, rows, patch, columns, patch})
      .permute({0, 2, 4, 1, 3, 5})
      .reshape({n, rows * columns, channels * patch * patch});
}

torch::Tensor unpatchify(const torch::Tensor& patches, int64_t channels, int64_t height, int64_t width,
                         int64_t patch) {
  const auto rows = height / patch, columns = width / patch;
  expect_shape(patches, "patches", {any_size, rows * columns, channels * patch * patch});
  return patches.reshape({patches.size(0), rows, columns, channels, patch, patch})
      .permute({0, 3, 1, 4, 2, 5})
      .reshape({patches.size(0), channels, rows * patch, columns * patch});
}

}  // namespace bigmac::nn
