#include "bigmac/nn/moe.h"

#include <string>
#include <tuple>

namespace bigmac::nn {
namespace {

// logits, probabilities [n, experts]; load [experts]
RouterLosses router_losses(const torch::Tensor& logits, const torch::Tensor& probabilities,
                           const torch::Tensor& load) {
  const auto tokens = static_cast<double>(logits.size(0) > 0 ? logits.size(0) : 1);
  const auto experts = static_cast<double>(logits.size(1));
  auto share = load.to(logits.scalar_type()) / tokens;
  auto balance = (share * probabilities.sum(0)).sum() * (experts / tokens);
  return {balance, torch::logsumexp(logits, 1).square().sum() / tokens, load};
}

}  // namespace

void MoeConfig::check() const {
  const char* what = "mixture of experts";
  expect_positive(what, "experts", experts);
  expect_positive(what, "experts_per_token", experts_per_token);
  expect_positive(what, "ffn", ffn);
  expect(experts_per_token <= experts, what, ": experts_per_token is ", experts_per_token,
         ", expected at most the ", experts, " experts");
}

MoeImpl::MoeImpl(int64_t hidden, const MoeConfig& config)
    : hidden_(hidden), config_(config), router_(nullptr) {
  config.check();
  router_ = register_module("router",
                            torch::nn::Linear(torch::nn::LinearOptions(hidden, config.experts).bias(false)));
  auto container = register_module("experts", std::make_shared<torch::nn::Module>("experts"));
  for (int64_t i = 0; i < config.experts; ++i)
    experts_.push_back(container->register_module(std::to_string(i), GatedMlp(hidden, config.ffn)));
}

MoeOutput MoeImpl::forward(const torch::Tensor& x, const torch::Tensor& mask) {
  expect_width(x, "input of the experts", hidden_);
  auto tokens = x.reshape({-1, hidden_});
  torch::Tensor valid;
  if (mask.defined()) {
    expect_type(mask, "mask of the experts", torch::kBool);
    expect(mask.sizes() == x.sizes().slice(0, x.dim() - 1), "mask of the experts: shape ", mask.sizes(),
           ", expected ", x.sizes().slice(0, x.dim() - 1));
    valid = mask.reshape({-1}).nonzero().squeeze(1);
    tokens = tokens.index_select(0, valid);
  }

  auto logits = router_(tokens);
  if (logits.element_size() < 4) logits = logits.to(torch::kFloat);
  auto probabilities = torch::softmax(logits, -1);
  auto [weights, chosen] = probabilities.topk(config_.experts_per_token, -1);
  if (config_.normalise_top_k) weights = weights / weights.sum(-1, /*keepdim=*/true);

  auto choices = chosen.reshape({-1});
  auto order = std::get<1>(torch::sort(choices, /*stable=*/true, 0, false));
  auto load = torch::bincount(choices, {}, config_.experts);
  auto rows = order.div(config_.experts_per_token, "floor");
  auto routed = tokens.index_select(0, rows);
  auto counts = load.to(torch::kCPU);
  std::vector<torch::Tensor> results;
  int64_t from = 0;
  for (size_t i = 0; i < experts_.size(); ++i) {
    const auto count = counts.data_ptr<int64_t>()[i];
    results.push_back(experts_[i](routed.narrow(0, from, count)));
    from += count;
  }
  auto scale = weights.reshape({-1}).index_select(0, order).to(x.scalar_type()).unsqueeze(1);
  auto y = torch::zeros_like(tokens).index_add(0, rows, torch::cat(results) * scale);
  if (valid.defined()) y = torch::zeros({mask.numel(), hidden_}, x.options()).index_add(0, valid, y);
  return {y.view(x.sizes()), router_losses(logits, probabilities, load)};
}

}  // namespace bigmac::nn
