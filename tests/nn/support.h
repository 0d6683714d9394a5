#pragma once

#include <gtest/gtest.h>
#include <torch/nn/module.h>

#include <cmath>
#include <functional>
#include <string>

// What the tests of this room share.
namespace bigmac::nn::test {

inline torch::TensorOptions f64() {
  return torch::dtype(torch::kDouble);
}

inline double largest_difference(const torch::Tensor& a, const torch::Tensor& b) {
  return a.sizes() == b.sizes() ? (a - b).abs().max().item<double>() : HUGE_VAL;
}

inline int64_t parameter_count(const torch::nn::Module& module) {
  int64_t count = 0;
  for (const auto& parameter : module.parameters()) count += parameter.numel();
  return count;
}

// The message of the error which `act` raises, or "" where it raises none.
inline std::string error_of(const std::function<void()>& act) {
  try {
    act();
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

inline void expect_every_gradient(const torch::nn::Module& module) {
  for (const auto& item : module.named_parameters()) {
    const auto& gradient = item.value().grad();
    ASSERT_TRUE(gradient.defined()) << item.key();
    EXPECT_TRUE(gradient.isfinite().all().item<bool>()) << item.key();
    EXPECT_GT(gradient.abs().max().item<double>(), 0) << item.key();
  }
}

// Every parameter's gradient along a random direction against the central difference of `loss`, in float64.
inline void expect_gradients_match_differences(const torch::nn::Module& module,
                                               const std::function<torch::Tensor()>& loss) {
  loss().backward();
  torch::NoGradGuard no_grad;
  const double step = 2e-6;
  for (auto& item : module.named_parameters()) {
    auto& parameter = item.value();
    auto direction = torch::randn_like(parameter);
    auto start = parameter.clone();
    parameter.copy_(start + step * direction);
    const double above = loss().item<double>();
    parameter.copy_(start - step * direction);
    const double below = loss().item<double>();
    parameter.copy_(start);
    const double expected = (above - below) / (2 * step);
    const double found = (parameter.grad() * direction).sum().item<double>();
    EXPECT_NEAR(found, expected, 1e-5 * (1 + std::abs(expected))) << item.key();
  }
}

}  // namespace bigmac::nn::test
