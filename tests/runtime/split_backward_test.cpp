#include "bigmac/runtime/split_backward.h"

#include <ATen/record_function.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <map>

namespace bigmac {
namespace {

torch::Tensor values(std::vector<int64_t> sizes, uint64_t seed) {
  return torch::randn(sizes, at::detail::createCPUGenerator(seed), torch::dtype(torch::kFloat64));
}

thread_local std::map<std::string, int>* calls = nullptr;

// Counts this thread's calls of operators by name.
class Counting {
 public:
  Counting() {
    calls = &calls_;
    handle_ = at::addThreadLocalCallback(
        at::RecordFunctionCallback([](const at::RecordFunction& fn) -> std::unique_ptr<at::ObserverContext> {
          ++(*calls)[fn.name()];
          return nullptr;
        }).scopes({at::RecordScope::FUNCTION}));
  }
  ~Counting() {
    at::removeCallback(handle_);
    calls = nullptr;
  }
  int of(const std::string& name) { return std::exchange(calls_[name], 0); }

 private:
  std::map<std::string, int> calls_;
  at::CallbackHandle handle_;
};

// A residual stack with biases, gains, a shared matrix, an unused part and branches that join again.
struct Net {
  std::vector<torch::Tensor> matrices, biases, gains;
  torch::Tensor shared = values({4, 4}, 50).requires_grad_();

  explicit Net(int layers) {
    for (int i = 0; i < layers; ++i) {
      matrices.push_back((values({4, 4}, uint64_t(i)) / 2).requires_grad_());
      biases.push_back(values({4}, 100 + uint64_t(i)).requires_grad_());
      gains.push_back(values({4}, 200 + uint64_t(i)).requires_grad_());
    }
  }
  torch::Tensor operator()(torch::Tensor x) const {
    for (size_t i = 0; i < matrices.size(); ++i) {
      auto inner = torch::layer_norm(x, {4}, gains[i], biases[i]);
      auto parts = torch::addmm(biases[i], inner, matrices[i]).chunk(2, 1);
      x = x + torch::cat({parts[1].sigmoid(), parts[0]}, 1).matmul(shared.t());
    }
    return x;
  }
  std::vector<torch::Tensor> parameters() const {
    std::vector<torch::Tensor> all{shared};
    for (const auto* list : {&matrices, &biases, &gains}) all.insert(all.end(), list->begin(), list->end());
    return all;
  }
  Tensors take_gradients() const {
    Tensors gradients;
    for (auto parameter : parameters()) {
      gradients.push_back(parameter.grad().defined() ? parameter.grad().clone() : torch::Tensor());
      parameter.mutable_grad() = torch::Tensor();
    }
    return gradients;
  }
};

void expect_same(const Tensors& got, const Tensors& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_EQ(got[i].defined(), expected[i].defined()) << i;
    if (!expected[i].defined()) continue;
    EXPECT_TRUE(torch::allclose(got[i], expected[i], 1e-12, 1e-12)) << i;
  }
}

TEST(SplitBackward, GivesTheGradientsOfAWholeBackward) {
  Net net(3);
  auto start = values({5, 4}, 7), other = values({5, 4}, 8), gradient = values({5, 4}, 9);
  auto outputs = [&](const torch::Tensor& x, const torch::Tensor& y) {
    auto out = net(x) + y;
    return Tensors{out, out.square().sum() * 0.01 + net.gains[0].sum()};
  };
  auto x = start.clone().requires_grad_(), y = other.clone().requires_grad_();
  torch::autograd::backward(outputs(x, y), {gradient, torch::ones({}, torch::kFloat64)});
  Tensors inputs{x.grad(), y.grad(), {}}, parameters = net.take_gradients();

  auto unused = values({2}, 1).requires_grad_();
  auto a = start.clone().requires_grad_(), b = other.clone().requires_grad_();
  auto roots = outputs(a, b);
  SplitBackward split(roots, {gradient, torch::ones({}, torch::kFloat64)}, {a, b, unused});
  roots.clear();
  expect_same(split.input_gradients, inputs);
  for (const auto& before : net.take_gradients()) EXPECT_FALSE(before.defined());
  EXPECT_FALSE(a.grad().defined());
  split.weights.run();
  expect_same(net.take_gradients(), parameters);
  EXPECT_FALSE(a.grad().defined());
  split.weights.run();
  for (const auto& after : net.take_gradients()) EXPECT_FALSE(after.defined());
}

TEST(SplitBackward, ComputesNoProductTwice) {
  constexpr int kLayers = 5;
  std::vector<torch::Tensor> matrices;
  for (int i = 0; i < kLayers; ++i) matrices.push_back(values({4, 4}, uint64_t(i)).requires_grad_());
  auto run = [&](const torch::Tensor& x) {
    auto out = x;
    for (const auto& matrix : matrices) out = out.mm(matrix).tanh();
    return out;
  };
  auto x = values({3, 4}, 9).requires_grad_();
  auto whole = run(x), halves = run(x);
  auto gradient = values({3, 4}, 8);
  Counting counting;
  torch::autograd::backward({whole}, {gradient});
  EXPECT_EQ(counting.of("aten::mm"), 2 * kLayers);
  EXPECT_EQ(counting.of("aten::tanh_backward"), kLayers);
  SplitBackward split({halves}, {gradient}, {x});
  EXPECT_EQ(counting.of("aten::mm"), kLayers);
  EXPECT_EQ(counting.of("aten::tanh_backward"), kLayers);
  split.weights.run();
  EXPECT_EQ(counting.of("aten::mm"), kLayers);
  EXPECT_EQ(counting.of("aten::tanh_backward"), 0);
}

TEST(SplitBackward, WithoutInputsLeavesAllOfItToTheSecondPart) {
  Net net(2);
  auto x = values({5, 4}, 7), gradient = values({5, 4}, 9);
  torch::autograd::backward({net(x)}, {gradient});
  auto parameters = net.take_gradients();
  for (bool unrelated : {false, true}) {
    auto root = net(x);
    SplitBackward split({root}, {gradient}, unrelated ? Tensors{values({1}, 1).requires_grad_()} : Tensors{});
    for (const auto& before : net.take_gradients()) EXPECT_FALSE(before.defined());
    split.weights.run();
    expect_same(net.take_gradients(), parameters);
  }
}

TEST(SplitBackward, OfNothingDoesNothing) {
  SplitBackward split({}, {}, {values({1}, 1).requires_grad_()});
  EXPECT_FALSE(split.input_gradients.at(0).defined());
  split.weights.run();
}

TEST(SplitBackward, OfAStageThatHandsItsInputOnGivesTheGradientBack) {
  auto x = values({3}, 1).requires_grad_(), gradient = values({3}, 2);
  SplitBackward split({x}, {gradient}, {x});
  EXPECT_TRUE(torch::equal(split.input_gradients.at(0), gradient));
  split.weights.run();
  EXPECT_FALSE(x.grad().defined());
}

TEST(SplitBackward, FreesWhatOnlyTheInputsNeeded) {
  auto matrix = values({4, 4}, 1).requires_grad_(), x = values({3, 4}, 9).requires_grad_();
  auto activated = x.mm(matrix).exp();
  auto saved = activated.storage().getWeakStorageImpl();
  Tensors roots{activated.sum()};
  activated.reset();
  EXPECT_FALSE(saved.expired());
  SplitBackward split(roots, {torch::ones({}, torch::kFloat64)}, {x});
  roots.clear();
  EXPECT_TRUE(saved.expired());
  split.weights.run();
  EXPECT_TRUE(matrix.grad().defined());
}

}  // namespace
}  // namespace bigmac
