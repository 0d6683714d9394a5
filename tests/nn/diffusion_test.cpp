#include "bigmac/nn/diffusion.h"

#include <torch/optim/adam.h>

#include <cmath>

#include "bigmac/nn/initialise.h"
#include "support.h"

using namespace bigmac::nn;
using namespace bigmac::nn::test;

namespace {

DiffusionConfig small_diffusion() {
  DiffusionConfig config;
  config.picture = 8;
  config.hidden = 32;
  config.heads = 2;
  config.ffn = 64;
  config.text = 20;
  return config;
}

DiffusionTransformer seeded(const DiffusionConfig& config, torch::ScalarType type = torch::kDouble) {
  DiffusionTransformer model(config);
  model->to(type);
  initialise(*model, 4, "diffusion.");
  return model;
}

struct Batch {
  torch::Tensor pictures, noise, time, text, mask;
};

Batch batch_of(int64_t n, int64_t length, torch::ScalarType type = torch::kDouble) {
  return {torch::rand({n, 3, 8, 8}, type), torch::randn({n, 3, 8, 8}, type), torch::rand({n}, type),
          torch::randn({n, length, 20}, type), torch::ones({n, length}, torch::kBool)};
}

}  // namespace

TEST(DiffusionConfigTest, NamesTheNumbersWhichDoNotDivide) {
  auto config = small_diffusion();
  config.patch = 3;
  EXPECT_EQ(error_of([&] { config.check(); }), "diffusion: picture 8 is not divisible by patch 3");
  config = small_diffusion();
  config.heads = 3;
  EXPECT_EQ(error_of([&] { config.check(); }), "diffusion: hidden 32 is not divisible by heads 3");
  config.layers = 0;
  EXPECT_EQ(error_of([&] { DiffusionTransformer model(config); }),
            "diffusion: layers is 0, expected at least 1");
  EXPECT_NO_THROW(DiffusionConfig().check());
}

TEST(DiffusionTransformerTest, GivesAVelocityPerPixel) {
  DiffusionTransformer model{DiffusionConfig()};
  auto velocity = model(torch::rand({2, 3, 32, 32}), torch::rand({2}), torch::randn({2, 5, 128}),
                        torch::ones({2, 5}, torch::kBool));
  EXPECT_EQ(velocity.sizes(), (std::vector<int64_t>{2, 3, 32, 32}));
}

TEST(DiffusionTransformerTest, TellsWhichInputDoesNotFit) {
  auto model = seeded(small_diffusion());
  auto b = batch_of(2, 3);
  auto error = [&](const Batch& of) {
    return error_of([&] { model(of.pictures, of.time, of.text, of.mask); });
  };
  EXPECT_EQ(error(b), "");
  auto wrong = b;
  wrong.pictures = torch::rand({2, 3, 8, 4}, f64());
  EXPECT_NE(error(wrong).find("pictures: shape [2, 3, 8, 4], expected [any, 3, 8, 8]"), std::string::npos);
  wrong = b;
  wrong.time = torch::rand({3}, f64());
  EXPECT_NE(error(wrong).find("time: shape [3], expected [2]"), std::string::npos);
  wrong = b;
  wrong.text = torch::rand({2, 3, 19}, f64());
  EXPECT_NE(error(wrong).find("text: shape [2, 3, 19], expected [2, any, 20]"), std::string::npos);
  wrong = b;
  wrong.mask = torch::ones({2, 4}, torch::kBool);
  EXPECT_NE(error(wrong).find("text mask: shape [2, 4], expected [2, 3]"), std::string::npos);
  wrong.mask = torch::ones({2, 3});
  EXPECT_NE(error(wrong).find("expected bool"), std::string::npos);
  EXPECT_NE(error_of([&] {
              rectified_flow_loss(*model, b.pictures, b.noise[0], b.time, b.text, b.mask);
            }).find("noise: shape [3, 8, 8], expected [2, 3, 8, 8]"),
            std::string::npos);
}

TEST(DiffusionTransformerTest, HasTheCountedParameters) {
  auto c = small_diffusion();
  const int64_t h = c.hidden, d = c.hidden / c.heads, f = c.ffn;
  const int64_t stream = (6 * h * h + 6 * h) + 3 * h * h + 2 * d + (h * h + h) + (h * f + f) + (f * h + h);
  const int64_t keys_only = (2 * h * h + 2 * h) + 2 * h * h + d;
  EXPECT_EQ(parameter_count(*DiffusionBlock(c, false)), 2 * stream);
  EXPECT_EQ(parameter_count(*DiffusionBlock(c, true)), stream + keys_only);
  const int64_t around =
      (48 * h + h) + (c.text * h + h) + 2 * (h * h + h) + (2 * h * h + 2 * h) + (h * 48 + 48);
  EXPECT_EQ(parameter_count(*DiffusionTransformer(c)), 2 * stream + stream + keys_only + around);
}

TEST(DiffusionTransformerTest, IgnoresMaskedText) {
  auto model = seeded(small_diffusion());
  auto b = batch_of(2, 6);
  b.mask[0].slice(0, 4).fill_(false);
  auto velocity = model(b.pictures, b.time, b.text, b.mask);
  auto changed = b.text.clone();
  changed[0].slice(0, 4).mul_(-3).add_(1);
  EXPECT_TRUE(torch::equal(velocity, model(b.pictures, b.time, changed, b.mask)));
  auto shorter = model->forward(b.pictures.slice(0, 0, 1), b.time.slice(0, 0, 1),
                                b.text.slice(0, 0, 1).slice(1, 0, 4), {});
  EXPECT_LT(largest_difference(velocity[0], shorter[0]), 1e-13);
}

TEST(DiffusionTransformerTest, ListensToTextTimeAndPlace) {
  auto model = seeded(small_diffusion());
  auto b = batch_of(1, 6);
  auto velocity = model(b.pictures, b.time, b.text, b.mask);
  EXPECT_GT(largest_difference(velocity, model(b.pictures, b.time, b.text + 1, b.mask)), 1e-6);
  EXPECT_GT(largest_difference(velocity, model(b.pictures, 1 - b.time, b.text, b.mask)), 1e-6);
  auto rolled = model(b.pictures.roll({4}, {3}), b.time, b.text, b.mask).roll({4}, {3});
  EXPECT_GT(largest_difference(velocity, rolled), 1e-6);
}

TEST(DiffusionTransformerTest, GivesEveryParameterAndTheTextAGradient) {
  for (auto type : {torch::kFloat, torch::kDouble}) {
    auto model = seeded(small_diffusion(), type);
    auto b = batch_of(2, 5, type);
    b.mask[1].slice(0, 3).fill_(false);
    b.text.requires_grad_();
    auto loss = rectified_flow_loss(*model, b.pictures, b.noise, b.time, b.text, b.mask);
    EXPECT_EQ(loss.scalar_type(), type);
    loss.backward();
    expect_every_gradient(*model);
    EXPECT_GT(b.text.grad()[1][2].abs().max().item<double>(), 0);
    EXPECT_EQ(b.text.grad()[1].slice(0, 3).abs().max().item<double>(), 0);
  }
}

TEST(DiffusionTransformerTest, HasTheGradientsOfItsLoss) {
  auto config = small_diffusion();
  config.hidden = 16;
  config.ffn = 24;
  auto model = seeded(config);
  auto b = batch_of(2, 3);
  expect_gradients_match_differences(
      *model, [&] { return rectified_flow_loss(*model, b.pictures, b.noise, b.time, b.text, b.mask); });
}

TEST(DiffusionTransformerTest, WorksInBfloat16) {
  auto wide = seeded(small_diffusion()), narrow = seeded(small_diffusion(), torch::kBFloat16);
  auto b = batch_of(2, 5);
  auto to = [](const torch::Tensor& x) { return x.to(torch::kBFloat16); };
  auto velocity = narrow(to(b.pictures), b.time, to(b.text), b.mask);
  EXPECT_EQ(velocity.scalar_type(), torch::kBFloat16);
  EXPECT_LT(largest_difference(wide(b.pictures, b.time, b.text, b.mask), velocity.to(torch::kDouble)), 0.05);
}

TEST(TimeEmbedding, HoldsTheCosinesAndSinesOfGeometricFrequencies) {
  auto embedding = time_embedding(torch::tensor({0.25}, f64()), 4, torch::zeros({1}, f64()))[0];
  const double angle[] = {250, 2.5};  // 10000^(-2/4) = 1/100
  for (int i = 0; i < 2; ++i) {
    EXPECT_NEAR(embedding[i].item<double>(), std::cos(angle[i]), 1e-12);
    EXPECT_NEAR(embedding[i + 2].item<double>(), std::sin(angle[i]), 1e-12);
  }
}

TEST(RectifiedFlow, SumsTheSquaredErrorsOfTheVelocityAtThePointBetween) {
  auto model = seeded(small_diffusion());
  auto b = batch_of(2, 3);
  double expected = 0;
  for (int64_t i = 0; i < 2; ++i) {
    const double t = b.time[i].item<double>();
    auto x = (b.pictures[i] * (1 - t) + b.noise[i] * t).unsqueeze(0);
    auto velocity = model->forward(x, b.time.slice(0, i, i + 1), b.text.slice(0, i, i + 1), {})[0];
    expected += (velocity - b.noise[i] + b.pictures[i]).pow(2).sum().item<double>();
  }
  auto loss = rectified_flow_loss(*model, b.pictures, b.noise, b.time, b.text, b.mask);
  EXPECT_EQ(loss.dim(), 0);
  EXPECT_NEAR(loss.item<double>(), expected, 1e-9);
}

TEST(RectifiedFlow, RecoversThePictureFromTheExactVelocity) {
  auto picture = torch::rand({2, 3, 8, 8}, f64()), noise = torch::randn({2, 3, 8, 8}, f64());
  std::vector<double> times;
  auto exact = [&](const torch::Tensor& x, const torch::Tensor& time) {
    times.push_back(time[1].item<double>());
    return (x - picture) / time.view({-1, 1, 1, 1});
  };
  EXPECT_LT(largest_difference(integrate(exact, noise, 4), picture), 1e-14);
  EXPECT_EQ(times, (std::vector<double>{1, 0.75, 0.5, 0.25}));
  EXPECT_NE(error_of([&] { integrate(exact, noise, 0); }).find("steps: 0, expected at least 1"),
            std::string::npos);
}

TEST(RectifiedFlow, SamplesWithTheModelsVelocityAndWithoutGradients) {
  auto model = seeded(small_diffusion());
  auto b = batch_of(2, 3);
  auto halfway = b.noise - model(b.noise, torch::ones({2}, f64()), b.text, b.mask) / 2;
  auto expected = halfway - model(halfway, torch::full({2}, 0.5, f64()), b.text, b.mask) / 2;
  auto pictures = sample_pictures(model, b.text, b.mask, b.noise, 2);
  EXPECT_LT(largest_difference(pictures, expected), 1e-14);
  EXPECT_FALSE(pictures.requires_grad());
}

TEST(RectifiedFlow, LearnsOnePictureAndDrawsIt) {
  torch::manual_seed(8);
  auto config = small_diffusion();
  config.patch = 2;  // a token is wide enough to carry the noise of its patch
  auto model = seeded(config, torch::kFloat);
  auto b = batch_of(8, 3, torch::kFloat);
  auto picture = b.pictures[0].expand_as(b.pictures), text = b.text[0].expand_as(b.text);
  auto loss = [&](const torch::Tensor& noise, const torch::Tensor& time) {
    return rectified_flow_loss(*model, picture, noise, time, text, b.mask) / b.pictures.numel();
  };
  const double before = loss(b.noise, b.time).item<double>();
  torch::optim::Adam adam(model->parameters(), torch::optim::AdamOptions(3e-3));
  for (int step = 0; step < 300; ++step) {
    adam.zero_grad();
    loss(torch::randn_like(b.noise), torch::rand_like(b.time)).backward();
    adam.step();
  }
  EXPECT_LT(loss(b.noise, b.time).item<double>(), 0.3 * before);

  auto error = [&](const torch::Tensor& x) { return (x - picture).square().mean().item<double>(); };
  EXPECT_LT(error(sample_pictures(model, text, b.mask, b.noise, 10)),
            0.2 * error(torch::zeros_like(picture)));
}
