#include "bigmac/nn/diffusion.h"

#include <cmath>

namespace bigmac::nn {
namespace {

constexpr double rope_theta = 1e4;
constexpr double norm_eps = 1e-6;

torch::nn::Linear plain_linear(int64_t width) {
  return torch::nn::Linear(torch::nn::LinearOptions(width, width).bias(false));
}

// AdaLN (Peebles and Xie 2023): LayerNorm without its own weights, then (1 + scale) x + shift.
torch::Tensor modulate(const torch::Tensor& x, const torch::Tensor& shift, const torch::Tensor& scale) {
  return torch::layer_norm(x, {x.size(-1)}, {}, {}, norm_eps) * (1 + scale) + shift;
}

std::vector<torch::Tensor> chunks(torch::nn::Linear& linear, const torch::Tensor& condition, int64_t count) {
  return linear(torch::silu(condition)).unsqueeze(1).chunk(count, -1);
}

}  // namespace

void DiffusionConfig::check() const {
  const char* what = "diffusion";
  expect_positive(what, "picture", picture);
  expect_positive(what, "channels", channels);
  expect_positive(what, "patch", patch);
  expect_positive(what, "hidden", hidden);
  expect_positive(what, "layers", layers);
  expect_positive(what, "heads", heads);
  expect_positive(what, "ffn", ffn);
  expect_positive(what, "text", text);
  expect(deviation > 0, "diffusion: deviation ", deviation, " is not positive");
  expect_divisible(what, "picture", picture, "patch", patch);
  expect_divisible(what, "hidden", hidden, "heads", heads);
  expect_divisible(what, "hidden / heads", hidden / heads, "", 4);
}

DiffusionStreamImpl::DiffusionStreamImpl(const DiffusionConfig& config, bool keys_only)
    : heads_(config.heads) {
  const auto hidden = config.hidden, head_dim = config.hidden / config.heads;
  modulation_ = register_module("modulation", torch::nn::Linear(hidden, (keys_only ? 2 : 6) * hidden));
  k_ = register_module("k", plain_linear(hidden));
  v_ = register_module("v", plain_linear(hidden));
  k_norm_ = register_module("k_norm", RmsNorm(head_dim, norm_eps));
  if (keys_only) return;
  q_ = register_module("q", plain_linear(hidden));
  q_norm_ = register_module("q_norm", RmsNorm(head_dim, norm_eps));
  o_ = register_module("o", torch::nn::Linear(hidden, hidden));
  up_ = register_module("up", torch::nn::Linear(hidden, config.ffn));
  down_ = register_module("down", torch::nn::Linear(config.ffn, hidden));
}

std::vector<torch::Tensor> DiffusionStreamImpl::modulation(const torch::Tensor& condition) {
  return chunks(modulation_, condition, o_.is_empty() ? 2 : 6);
}

torch::Tensor DiffusionStreamImpl::queries(const torch::Tensor& x) {
  return q_norm_(split_heads(q_(x), heads_));
}

torch::Tensor DiffusionStreamImpl::keys(const torch::Tensor& x) {
  return k_norm_(split_heads(k_(x), heads_));
}

torch::Tensor DiffusionStreamImpl::values(const torch::Tensor& x) {
  return split_heads(v_(x), heads_);
}

torch::Tensor DiffusionStreamImpl::update(torch::Tensor x, const torch::Tensor& attended,
                                          const std::vector<torch::Tensor>& modulation) {
  x = x + modulation[2] * o_(attended);
  return x + modulation[5] * down_(safe_gelu(up_(modulate(x, modulation[3], modulation[4]))));
}

DiffusionBlockImpl::DiffusionBlockImpl(const DiffusionConfig& config, bool last)
    : last_(last),
      picture_(register_module("picture", DiffusionStream(config, false))),
      text_(register_module("text", DiffusionStream(config, last))) {}

void DiffusionBlockImpl::forward(torch::Tensor& picture, torch::Tensor& text, const torch::Tensor& condition,
                                 const Rotary& positions, const torch::Tensor& key_mask) {
  const auto of_picture = picture_->modulation(condition), of_text = text_->modulation(condition);
  auto p = modulate(picture, of_picture[0], of_picture[1]);
  auto t = modulate(text, of_text[0], of_text[1]);
  auto q = rotate(picture_->queries(p), positions);
  auto k = torch::cat({rotate(picture_->keys(p), positions), text_->keys(t)}, 2);
  auto v = torch::cat({picture_->values(p), text_->values(t)}, 2);
  if (!last_) q = torch::cat({q, text_->queries(t)}, 2);

  auto attended = join_heads(attend(q, k, v, false, key_mask));
  const auto tokens = picture.size(1);
  picture = picture_->update(picture, attended.narrow(1, 0, tokens), of_picture);
  if (!last_) text = text_->update(text, attended.narrow(1, tokens, text.size(1)), of_text);
}

DiffusionTransformerImpl::DiffusionTransformerImpl(const DiffusionConfig& config)
    : Stack(config.layers), config_(config) {
  config.check();
  const auto hidden = config.hidden, values = config.channels * config.patch * config.patch;
  patch_ = register_module("patch", torch::nn::Linear(values, hidden));
  text_ = register_module("text", torch::nn::Linear(config.text, hidden));
  time_in_ = register_module("time_in", torch::nn::Linear(hidden, hidden));
  time_out_ = register_module("time_out", torch::nn::Linear(hidden, hidden));
  register_module("blocks", blocks_);
  for (int64_t i = 0; i < config.layers; ++i)
    blocks_->push_back(DiffusionBlock(config, i + 1 == config.layers));
  modulation_ = register_module("modulation", torch::nn::Linear(hidden, 2 * hidden));
  out_ = register_module("out", torch::nn::Linear(hidden, values));
}

torch::Tensor DiffusionTransformerImpl::forward(const torch::Tensor& pictures, const torch::Tensor& time,
                                                const torch::Tensor& text, const torch::Tensor& text_mask) {
  expect_shape(pictures, "pictures", {any_size, config_.channels, config_.picture, config_.picture});
  const auto n = pictures.size(0), grid = config_.picture / config_.patch;
  expect_shape(time, "time", {n});
  expect_shape(text, "text", {n, any_size, config_.text});
  torch::Tensor key_mask;
  if (text_mask.defined()) {
    expect_shape(text_mask, "text mask", {n, text.size(1)});
    expect_type(text_mask, "text mask", torch::kBool);
    key_mask = torch::cat({torch::ones({n, config_.tokens()}, text_mask.options()), text_mask}, 1);
  }

  auto t = time.to(pictures.scalar_type()).view({-1, 1, 1, 1});
  const double square = config_.deviation * config_.deviation;
  auto variance = (1 - t).square() * square + t.square();
  auto x = patch_(patchify(pictures / variance.sqrt(), config_.patch));
  auto words = text_(text);
  auto condition = time_out_(torch::silu(time_in_(time_embedding(time, config_.hidden, x))));
  auto positions = axial_rotary(grid, grid, config_.hidden / config_.heads, rope_theta, x);
  for (const auto& block : *blocks_)
    block->as<DiffusionBlock>()->forward(x, words, condition, positions, key_mask);
  const auto last = chunks(modulation_, condition, 2);
  auto predicted = unpatchify(out_(modulate(x, last[0], last[1])), config_.channels, config_.picture,
                              config_.picture, config_.patch);
  return (t - (1 - t) * square) / variance * pictures + config_.deviation / variance.sqrt() * predicted;
}

torch::Tensor time_embedding(const torch::Tensor& time, int64_t width, const torch::Tensor& like) {
  expect_shape(time, "time", {any_size});
  expect(width > 0 && width % 2 == 0, "time embedding: width ", width, " is not divisible by 2");
  const auto half = width / 2;
  auto index = torch::arange(half, torch::device(time.device()).dtype(torch::kDouble));
  auto frequencies = 1000 * torch::exp(index * (-std::log(1e4) / static_cast<double>(half)));
  auto angles = time.to(torch::kDouble).unsqueeze(1) * frequencies;
  return torch::cat({angles.cos(), angles.sin()}, 1).to(like.options());
}

torch::Tensor rectified_flow_loss(DiffusionTransformerImpl& model, const torch::Tensor& pictures,
                                  const torch::Tensor& noise, const torch::Tensor& time,
                                  const torch::Tensor& text, const torch::Tensor& text_mask) {
  expect_shape(pictures, "pictures", {any_size, any_size, any_size, any_size});
  expect_shape(noise, "noise", pictures.sizes());
  expect_shape(time, "time", {pictures.size(0)});
  auto t = time.to(pictures.scalar_type()).view({-1, 1, 1, 1});
  auto velocity = model.forward((1 - t) * pictures + t * noise, time, text, text_mask);
  return (velocity - (noise - pictures)).square().sum();
}

torch::Tensor integrate(const Velocity& velocity, const torch::Tensor& noise, int64_t steps) {
  expect(steps >= 1, "steps: ", steps, ", expected at least 1");
  torch::NoGradGuard no_grad;
  auto x = noise;
  for (int64_t step = steps; step > 0; --step) {
    auto time = torch::full({x.size(0)}, static_cast<double>(step) / static_cast<double>(steps), x.options());
    x = x - velocity(x, time) / static_cast<double>(steps);
  }
  return x;
}

torch::Tensor sample_pictures(DiffusionTransformer& model, const torch::Tensor& text,
                              const torch::Tensor& text_mask, const torch::Tensor& noise, int64_t steps) {
  auto velocity = [&](const torch::Tensor& x, const torch::Tensor& time) {
    return model(x, time, text, text_mask);
  };
  return integrate(velocity, noise, steps);
}

}  // namespace bigmac::nn
