#include "bigmac/nn/head.h"

namespace bigmac::nn {

DecoderHeadImpl::DecoderHeadImpl(int64_t hidden, int64_t vocabulary, double eps) : norm_(nullptr) {
  expect_positive("head", "hidden", hidden);
  expect_positive("head", "vocabulary", vocabulary);
  norm_ = register_module("norm", RmsNorm(hidden, eps));
  weight_ = register_parameter("weight", torch::randn({vocabulary, hidden}) * 0.02);
}

torch::Tensor DecoderHeadImpl::states(const torch::Tensor& x) {
  return norm_(x);
}

torch::Tensor DecoderHeadImpl::logits(const torch::Tensor& states) {
  expect_width(states, "states", weight_.size(1));
  return torch::matmul(states, weight_.t());
}

torch::Tensor DecoderHeadImpl::forward(const torch::Tensor& x) {
  return logits(states(x));
}

torch::Tensor head_z_loss(const torch::Tensor& logits, const torch::Tensor& mask) {
  expect(logits.defined() && logits.dim() > 0, "logits: expected [..., vocabulary]");
  auto z = torch::logsumexp(logits.element_size() < 4 ? logits.to(torch::kFloat) : logits, -1).square();
  if (!mask.defined()) return z.sum();
  expect_type(mask, "mask of the logits", torch::kBool);
  expect(mask.sizes() == z.sizes(), "mask of the logits: shape ", mask.sizes(), ", expected ", z.sizes());
  return z.masked_fill(mask.logical_not(), 0).sum();
}

}  // namespace bigmac::nn
