#include "bigmac/nn/moe.h"

#include <torch/autograd.h>

#include <algorithm>
#include <numeric>

#include "bigmac/nn/initialise.h"
#include "support.h"

namespace bigmac::nn {
namespace {

using namespace test;

Moe random_moe(int64_t hidden, const MoeConfig& config) {
  Moe moe(hidden, config);
  moe->to(torch::kDouble);
  torch::NoGradGuard no_grad;
  for (auto& parameter : moe->parameters()) parameter.normal_(0, 0.5);
  return moe;
}

// Token after token, expert after expert, in the parameters given by name.
MoeOutput naive(const torch::OrderedDict<std::string, torch::Tensor>& p, const MoeConfig& c,
                const torch::Tensor& x, const torch::Tensor& mask) {
  auto rows = x.reshape({-1, x.size(-1)});
  auto valid = mask.defined() ? mask.reshape({-1}) : torch::ones({rows.size(0)}, torch::kBool);
  const auto hidden = rows.size(1);
  std::vector<torch::Tensor> outputs;
  std::vector<double> share(c.experts, 0);
  auto mean = torch::zeros({c.experts}, f64()), z = torch::zeros({}, f64());
  double count = 0;
  for (int64_t t = 0; t < rows.size(0); ++t) {
    outputs.push_back(torch::zeros({hidden}, f64()));
    if (!valid[t].item<bool>()) continue;
    auto logits = p["router.weight"].mv(rows[t]);
    auto powers = (logits - logits.max().detach()).exp();
    auto probability = powers / powers.sum();
    std::vector<int64_t> ranked(c.experts);
    std::iota(ranked.begin(), ranked.end(), int64_t{0});
    std::sort(ranked.begin(), ranked.end(),
              [&](int64_t a, int64_t b) { return logits[a].item<double>() > logits[b].item<double>(); });
    auto total = torch::zeros({}, f64());
    for (int64_t i = 0; i < c.experts_per_token; ++i) total = total + probability[ranked[i]];
    if (!c.normalise_top_k) total = torch::ones({}, f64());
    for (int64_t i = 0; i < c.experts_per_token; ++i) {
      const auto expert = "experts." + std::to_string(ranked[i]);
      auto gate = p[expert + ".gate.weight"].mv(rows[t]);
      auto inner = gate * gate.sigmoid() * p[expert + ".up.weight"].mv(rows[t]);
      auto y = p[expert + ".down.weight"].mv(inner);
      outputs.back() = outputs.back() + probability[ranked[i]] / total * y;
      share[ranked[i]] += 1;
    }
    mean = mean + probability;
    z = z + torch::log(logits.exp().sum()).square();
    count += 1;
  }
  auto balance = torch::zeros({}, f64());
  const double divisor = std::max(count, 1.0);
  for (int64_t e = 0; e < c.experts; ++e)
    balance = balance + share[e] / divisor * mean[e] / divisor * static_cast<double>(c.experts);
  auto y = outputs.empty() ? rows : torch::stack(outputs);
  return {y.view(x.sizes()), {balance, z / divisor, torch::tensor(share, f64())}};
}

std::vector<torch::Tensor> gradients_of(const MoeOutput& output, const torch::Tensor& weight,
                                        std::vector<torch::Tensor> of) {
  auto loss = (output.x * weight).sum() + 0.3 * output.losses.balance + 0.2 * output.losses.z;
  std::vector<torch::Tensor> result(of.size());
  if (loss.requires_grad())  // the loop without a token does not
    result = torch::autograd::grad({loss}, of, {}, /*retain_graph=*/false, /*create_graph=*/false,
                                   /*allow_unused=*/true);
  for (size_t i = 0; i < of.size(); ++i)
    if (!result[i].defined()) result[i] = torch::zeros_like(of[i]);
  return result;
}

void expect_equal_to_naive(int64_t hidden, const MoeConfig& config, const torch::Tensor& input,
                           const torch::Tensor& mask) {
  auto moe = random_moe(hidden, config);
  auto x = input.clone().requires_grad_();
  auto found = moe->forward(x, mask), expected = naive(moe->named_parameters(), config, x, mask);
  ASSERT_EQ(found.x.sizes(), x.sizes());
  if (x.numel() > 0) {
    EXPECT_LT(largest_difference(found.x, expected.x), 1e-12);
  }
  EXPECT_NEAR(found.losses.balance.item<double>(), expected.losses.balance.item<double>(), 1e-12);
  EXPECT_NEAR(found.losses.z.item<double>(), expected.losses.z.item<double>(), 1e-12);
  EXPECT_TRUE(torch::equal(found.losses.load.to(torch::kDouble), expected.losses.load));

  auto of = moe->parameters();
  of.push_back(x);
  auto weight = torch::randn_like(x);
  auto a = gradients_of(found, weight, of), b = gradients_of(expected, weight, of);
  for (size_t i = 0; i < of.size(); ++i)
    if (of[i].numel() > 0) {
      EXPECT_LT(largest_difference(a[i], b[i]), 1e-12 * (1 + b[i].abs().max().item<double>())) << i;
    }
}

TEST(MoeTest, EqualsALoopOverTokensAndExperts) {
  torch::manual_seed(3);
  for (int64_t experts : {1, 2, 5})
    for (int64_t k = 1; k <= experts; ++k)
      for (bool normalise : {true, false}) {
        SCOPED_TRACE(testing::Message() << experts << " experts, k " << k << ", normalised " << normalise);
        expect_equal_to_naive(6, {experts, k, 7, normalise}, torch::randn({2, 5, 6}, f64()), {});
      }
}

TEST(MoeTest, EqualsTheLoopForRandomShapesAndPadding) {
  torch::manual_seed(4);
  auto whole = [](int64_t from, int64_t to) { return torch::randint(from, to + 1, {}).item<int64_t>(); };
  for (int i = 0; i < 12; ++i) {
    MoeConfig config{whole(1, 9), 0, whole(1, 6), i % 2 == 0};
    config.experts_per_token = whole(1, config.experts);
    const int64_t hidden = whole(1, 8), batch = whole(1, 3), length = whole(1, 7);
    SCOPED_TRACE(testing::Message() << config.experts << " experts, k " << config.experts_per_token << ", "
                                    << batch << " x " << length);
    expect_equal_to_naive(hidden, config, torch::randn({batch, length, hidden}, f64()),
                          torch::rand({batch, length}) < 0.6);
  }
}

TEST(MoeTest, EqualsTheLoopForNoTokenAndForOne) {
  torch::manual_seed(5);
  MoeConfig config{4, 2, 3, true};
  expect_equal_to_naive(5, config, torch::randn({0, 5}, f64()), {});
  expect_equal_to_naive(5, config, torch::randn({1, 5}, f64()), {});
  expect_equal_to_naive(5, config, torch::randn({2, 3, 5}, f64()), torch::zeros({2, 3}, torch::kBool));
  auto one = torch::zeros({2, 3}, torch::kBool);
  one[1][2] = true;
  expect_equal_to_naive(5, config, torch::randn({2, 3, 5}, f64()), one);
}

TEST(MoeTest, GivesEmptyExpertsZeroGradients) {
  torch::manual_seed(6);
  auto moe = random_moe(4, {8, 1, 3, true});
  for (int64_t tokens : {0, 1}) {
    moe->zero_grad();
    auto output = moe->forward(torch::randn({tokens, 4}, f64()));
    (output.x.sum() + output.losses.balance + output.losses.z).backward();
    int64_t touched = 0;
    for (const auto& item : moe->named_parameters()) {
      ASSERT_TRUE(item.value().grad().defined()) << item.key();
      ASSERT_TRUE(item.value().grad().isfinite().all().item<bool>()) << item.key();
      if (item.key().find("down") != std::string::npos)
        touched += item.value().grad().abs().max().item<double>() > 0;
    }
    EXPECT_EQ(touched, tokens);
    EXPECT_EQ(output.losses.load.sum().item<int64_t>(), tokens);
  }
}

TEST(MoeTest, LetsNothingOfThePaddingThrough) {
  torch::manual_seed(7);
  auto moe = random_moe(4, {5, 2, 3, true});
  auto x = torch::randn({2, 6, 4}, f64());
  auto mask = torch::ones({2, 6}, torch::kBool);
  mask[0].slice(0, 2).fill_(false);
  auto spoilt = x.clone();
  spoilt[0].slice(0, 2).fill_(NAN);
  auto a = moe->forward(x, mask), b = moe->forward(spoilt, mask);
  EXPECT_TRUE(torch::equal(a.x, b.x));
  EXPECT_TRUE(torch::equal(a.losses.balance, b.losses.balance));
  EXPECT_TRUE(torch::equal(a.losses.z, b.losses.z));
  auto short_one = moe->forward(torch::cat({x[0].slice(0, 0, 2), x[1]}));
  EXPECT_LT(largest_difference(a.losses.balance, short_one.losses.balance), 1e-14);
  EXPECT_EQ(a.x[0].slice(0, 2).abs().max().item<double>(), 0);
}

TEST(MoeTest, HasTheLossesOfAnEvenAndOfACollapsedRouter) {
  // An even router over 4 experts with k = 2: P = 1/4, sum f = 2, hence balance 2; logits 0: z = ln(4)^2.
  auto moe = random_moe(3, {4, 2, 2, true});
  auto router = moe->named_parameters()["router.weight"];
  torch::NoGradGuard no_grad;
  router.zero_();
  auto even = moe->forward(torch::randn({6, 3}, f64())).losses;
  EXPECT_NEAR(even.balance.item<double>(), 2, 1e-14);
  EXPECT_NEAR(even.z.item<double>(), std::log(4.0) * std::log(4.0), 1e-14);
  // All tokens to experts 0 and 1 with logits 30, 20 and -30: P nearly (1, 0, 0, 0), f = (1, 1, 0, 0).
  router.copy_(torch::tensor({30.0, 20.0, -30.0, -30.0}, f64()).unsqueeze(1).expand({4, 3}) / 3);
  auto collapsed = moe->forward(torch::ones({6, 3}, f64())).losses;
  EXPECT_NEAR(collapsed.balance.item<double>(), 4, 1e-12);
  EXPECT_NEAR(collapsed.z.item<double>(), 30.0 * 30.0, 3e-3);
  EXPECT_TRUE(torch::equal(collapsed.load, torch::tensor({6, 6, 0, 0}, torch::kLong)));
}

TEST(MoeTest, RoutesInFloat32WhereTheInputHas16Bits) {
  torch::manual_seed(8);
  auto wide = random_moe(8, {6, 2, 5, true});
  Moe narrow(8, MoeConfig{6, 2, 5, true});
  {
    torch::NoGradGuard no_grad;
    for (const auto& item : narrow->named_parameters())
      item.value().copy_(wide->named_parameters()[item.key()]);
  }
  narrow->to(torch::kBFloat16);
  auto x = torch::randn({9, 8}).to(torch::kBFloat16);
  auto output = narrow->forward(x);
  EXPECT_EQ(output.x.scalar_type(), torch::kBFloat16);
  EXPECT_EQ(output.losses.balance.scalar_type(), torch::kFloat);
  auto expected = wide->forward(x.to(torch::kDouble));
  EXPECT_NEAR(output.losses.balance.item<double>(), expected.losses.balance.item<double>(), 0.1);
}

TEST(MoeTest, HoldsALayerOf128ExpertsWithTop8) {
  Moe moe(8, MoeConfig{128, 8, 4, true});
  EXPECT_EQ(parameter_count(*moe), 128 * 8 + 128 * 3 * 8 * 4);
  EXPECT_EQ(moe->named_parameters().size(), 1 + 128 * 3);
  initialise(*moe, 1, "llm.layers.0.mlp.");
  auto output = moe->forward(torch::randn({2, 9, 8}));
  EXPECT_EQ(output.losses.load.sum().item<int64_t>(), 2 * 9 * 8);
  output.x.sum().backward();
  for (const auto& parameter : moe->parameters()) EXPECT_TRUE(parameter.grad().defined());
}

TEST(MoeTest, TellsWhatDoesNotFit) {
  EXPECT_EQ(error_of([] {
              Moe(4, MoeConfig{4, 5, 3, true});
            }),
            "mixture of experts: experts_per_token is 5, expected at most the 4 experts");
  EXPECT_EQ(error_of([] {
              Moe(4, MoeConfig{0, 1, 3, true});
            }),
            "mixture of experts: experts is 0, expected at least 1");
  auto moe = random_moe(4, {4, 2, 3, true});
  EXPECT_EQ(error_of([&] {
              moe->forward(torch::zeros({2, 3}, f64()));
            }),
            "input of the experts: shape [2, 3], expected [..., 4]");
  auto x = torch::zeros({2, 3, 4}, f64());
  EXPECT_EQ(error_of([&] {
              moe->forward(x, torch::ones({2, 4}, torch::kBool));
            }),
            "mask of the experts: shape [2, 4], expected [2, 3]");
  EXPECT_EQ(error_of([&] {
              moe->forward(x, torch::ones({2, 3}));
            }),
            "mask of the experts: type Float, expected bool");
}

}  // namespace
}  // namespace bigmac::nn
