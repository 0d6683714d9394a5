#include "bigmac/nn/decoder.h"

#include <numeric>
#include <string>
#include <utility>

namespace bigmac::nn {
namespace {

AttentionShape attention_shape(const DecoderConfig& config) {
  config.check();
  return {config.hidden, config.heads, config.kv_heads, config.head_dim, true, true, config.eps};
}

}  // namespace

void DecoderConfig::check() const {
  const char* what = "decoder";
  expect_positive(what, "vocabulary", vocabulary);
  expect_positive(what, "hidden", hidden);
  expect_positive(what, "layers", layers);
  expect_positive(what, "heads", heads);
  expect_positive(what, "kv_heads", kv_heads);
  expect_positive(what, "head_dim", head_dim);
  expect_positive(what, "ffn", ffn);
  expect_divisible(what, "heads", heads, "kv_heads", kv_heads);
  expect_divisible(what, "head_dim", head_dim, "", 2);
  expect(rope_theta > 0, "decoder: rope_theta is ", rope_theta, ", expected more than 0");
  expect(eps > 0, "decoder: eps is ", eps, ", expected more than 0");
  if (moe) moe->check();
}

DecoderLayerImpl::DecoderLayerImpl(const DecoderConfig& config)
    : Residual(config.layers),
      hidden_(config.hidden),
      head_dim_(config.head_dim),
      rope_theta_(config.rope_theta) {
  const auto shape = attention_shape(config);
  attention_norm_ = register_module("attention_norm", RmsNorm(config.hidden, config.eps));
  attention_ = register_module("attention", Attention(shape));
  mlp_norm_ = register_module("mlp_norm", RmsNorm(config.hidden, config.eps));
  if (config.moe)
    moe_ = register_module("mlp", Moe(config.hidden, *config.moe));
  else
    mlp_ = register_module("mlp", GatedMlp(config.hidden, config.ffn));
}

torch::Tensor DecoderLayerImpl::forward(const torch::Tensor& x, const Rotary& positions) {
  return run(x, positions).x;
}

LayerOutput DecoderLayerImpl::run(const torch::Tensor& input, const Rotary& positions,
                                  const torch::Tensor& mask) {
  expect_shape(input, "input of the layer", {any_size, any_size, hidden_});
  auto turn = positions;
  if (!turn.cos.defined()) {
    auto index = torch::arange(input.size(1), torch::device(input.device()).dtype(torch::kLong));
    turn = rotary(index, head_dim_, rope_theta_, input);
  }
  auto x = input + attention_(attention_norm_(input), turn);
  auto y = mlp_norm_(x);
  if (moe_.is_empty()) return {x + mlp_(y), {}};
  auto output = moe_->forward(y, mask);
  return {x + output.x, output.losses};
}

DecoderImpl::DecoderImpl(const DecoderConfig& config, std::vector<int64_t> layers, bool embedding, bool head)
    : Stack(config.layers),
      config_(config),
      indices_(std::move(layers)),
      has_embedding_(embedding),
      has_head_(head) {
  config.check();
  if (embedding || (head && config.tied_embeddings))
    embedding_ = register_module("embedding", torch::nn::Embedding(config.vocabulary, config.hidden));
  auto container = register_module("layers", std::make_shared<torch::nn::Module>("layers"));
  for (auto i : indices_) {
    expect(i >= 0 && i < config.layers, "decoder: layer ", i, " of a model of ", config.layers, " layers");
    auto [place, added] = layers_.emplace(i, nullptr);
    expect(added, "decoder: layer ", i, " is given twice");
    place->second = container->register_module(std::to_string(i), DecoderLayer(config));
  }
  if (head) {
    norm_ = register_module("norm", RmsNorm(config.hidden, config.eps));
    if (!config.tied_embeddings)
      head_ = register_module(
          "head", torch::nn::Linear(torch::nn::LinearOptions(config.hidden, config.vocabulary).bias(false)));
  }
}

torch::Tensor DecoderImpl::embed(const torch::Tensor& tokens, const torch::Tensor& pictures,
                                 const std::vector<int64_t>& rows, int64_t picture_token) {
  expect(has_embedding_, "this part of the decoder was built without the embedding");
  expect_shape(tokens, "tokens", {any_size, any_size});
  const int64_t n = pictures.defined() && pictures.dim() > 0 ? pictures.size(0) : 0;
  if (n > 0) expect_shape(pictures, "pictures", {n, any_size, config_.hidden});
  expect(static_cast<int64_t>(rows.size()) == n, "rows: ", rows.size(), " samples for ", n, " pictures");
  SampleItems items(tokens.size(0));
  for (int64_t i = 0; i < n; ++i) {
    expect(rows[i] >= 0 && rows[i] < tokens.size(0), "rows: sample ", rows[i], " of a batch of ",
           tokens.size(0));
    items[rows[i]].push_back(pictures[i]);
  }
  return nn::embed(embedding_, tokens, items, picture_token);
}

torch::Tensor DecoderImpl::run(int64_t layer, const torch::Tensor& x) {
  return run(layer, x, {}).x;
}

LayerOutput DecoderImpl::run(int64_t layer, const torch::Tensor& x, const torch::Tensor& mask) {
  auto found = layers_.find(layer);
  expect(found != layers_.end(), "layer ", layer, " is not in this part of the decoder, which holds ",
         at::IntArrayRef(indices_));
  return found->second->run(x, {}, mask);
}

torch::Tensor DecoderImpl::states(const torch::Tensor& x) {
  expect(has_head_, "this part of the decoder was built without the head");
  return norm_(x);
}

torch::Tensor DecoderImpl::logits(const torch::Tensor& states) {
  expect(has_head_, "this part of the decoder was built without the head");
  expect_width(states, "states", config_.hidden);
  return config_.tied_embeddings ? torch::matmul(states, embedding_->weight.t()) : head_(states);
}

Decoder Decoder::whole(const DecoderConfig& config) {
  config.check();
  std::vector<int64_t> layers(config.layers);
  std::iota(layers.begin(), layers.end(), int64_t{0});
  return Decoder(config, layers, true, true);
}

}  // namespace bigmac::nn
