#include "bigmac/nn/decoder.h"

#include <algorithm>
#include <numeric>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>

namespace bigmac::nn {
namespace {

AttentionShape attention_shape(const DecoderConfig& config) {
  config.check();
  return {config.hidden, config.heads, config.kv_heads, config.head_dim, true, true, config.eps};
}

template <class... Parts>
[[noreturn]] void refuse(const Parts&... parts) {
  std::ostringstream text;
  (text << ... << parts);
  throw std::invalid_argument(text.str());
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
  if (!(rope_theta > 0)) refuse("decoder: rope_theta is ", rope_theta, ", expected more than 0");
  if (!(eps > 0)) refuse("decoder: eps is ", eps, ", expected more than 0");
}

DecoderLayerImpl::DecoderLayerImpl(const DecoderConfig& config)
    : TransformerBlockImpl(attention_shape(config), config.ffn) {}

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
    if (i < 0 || i >= config.layers)
      refuse("decoder: layer ", i, " of a model of ", config.layers, " layers");
    auto [place, added] = layers_.emplace(i, nullptr);
    if (!added) refuse("decoder: layer ", i, " is given twice");
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
  TORCH_CHECK(has_embedding_, "this part of the decoder was built without the embedding");
  expect_shape(tokens, "tokens", {any_size, any_size});
  TORCH_CHECK(tokens.scalar_type() == torch::kLong, "tokens: type ", tokens.scalar_type(),
              ", expected int64");
  const auto batch = tokens.size(0);
  const int64_t n = pictures.defined() && pictures.dim() > 0 ? pictures.size(0) : 0;
  if (n > 0) expect_shape(pictures, "pictures", {n, any_size, config_.hidden});
  TORCH_CHECK(static_cast<int64_t>(rows.size()) == n, "rows: ", rows.size(), " samples for ", n, " pictures");

  std::vector<int64_t> expected(batch, 0);
  for (auto row : rows) {
    TORCH_CHECK(row >= 0 && row < batch, "rows: sample ", row, " of a batch of ", batch);
    expected[row] += pictures.size(1);
  }
  auto places = tokens == picture_token;
  auto seen =
      torch::cat({places.sum(1), tokens.min().reshape({1}), tokens.max().reshape({1})}).to(torch::kCPU);
  const auto* counts = seen.data_ptr<int64_t>();
  TORCH_CHECK(counts[batch] >= 0 && counts[batch + 1] < config_.vocabulary, "tokens: ids from ",
              counts[batch], " to ", counts[batch + 1], ", expected 0 to ", config_.vocabulary - 1);
  for (int64_t row = 0; row < batch; ++row)
    TORCH_CHECK(counts[row] == expected[row], "tokens: sample ", row, " has ", counts[row],
                " positions of the picture token ", picture_token, ", but its pictures have ", expected[row],
                " tokens");

  auto x = embedding_(tokens);
  if (n == 0) return x;
  std::vector<int64_t> order(n);
  std::iota(order.begin(), order.end(), int64_t{0});
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return rows[a] < rows[b]; });
  auto index = torch::tensor(order, torch::kLong).to(pictures.device());
  return x.masked_scatter(places.unsqueeze(-1), pictures.index_select(0, index).to(x.scalar_type()));
}

torch::Tensor DecoderImpl::run(int64_t layer, const torch::Tensor& x) {
  auto found = layers_.find(layer);
  TORCH_CHECK(found != layers_.end(), "layer ", layer, " is not in this part of the decoder, which holds ",
              at::IntArrayRef(indices_));
  expect_shape(x, "input of the layer", {any_size, any_size, config_.hidden});
  auto positions = torch::arange(x.size(1), torch::device(x.device()).dtype(torch::kLong));
  return found->second(x, rotary(positions, config_.head_dim, config_.rope_theta, x));
}

torch::Tensor DecoderImpl::states(const torch::Tensor& x) {
  TORCH_CHECK(has_head_, "this part of the decoder was built without the head");
  return norm_(x);
}

torch::Tensor DecoderImpl::logits(const torch::Tensor& states) {
  TORCH_CHECK(has_head_, "this part of the decoder was built without the head");
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
