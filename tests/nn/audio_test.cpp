#include "bigmac/nn/audio.h"

#include <torch/autograd.h>

#include <cmath>

#include "bigmac/nn/initialise.h"
#include "support.h"

namespace bigmac::nn {
namespace {

using namespace test;

AudioConfig small(int64_t merge = 2) {
  AudioConfig config;
  config.mels = 6;
  config.hidden = 16;
  config.layers = 2;
  config.heads = 2;
  config.ffn = 20;
  config.merge = merge;
  config.out = 10;
  return config;
}

AudioEncoder random_encoder(const AudioConfig& config) {
  AudioEncoder encoder(config);
  encoder->to(torch::kDouble);
  torch::NoGradGuard no_grad;
  for (auto& parameter : encoder->parameters()) parameter.normal_(0, 0.3);
  return encoder;
}

std::vector<torch::Tensor> clips_of(const std::vector<int64_t>& frames) {
  std::vector<torch::Tensor> clips;
  for (auto length : frames) clips.push_back(torch::randn({6, length}, f64()));
  return clips;
}

// One clip, by loops over positions and heads.
torch::Tensor reference(const AudioEncoder& encoder, const torch::Tensor& clip) {
  const auto& c = encoder->config();
  auto p = encoder->named_parameters();
  auto gelu = [](const torch::Tensor& x) { return x * 0.5 * (1 + torch::erf(x / std::sqrt(2.0))); };
  auto linear = [&](const torch::Tensor& x, const std::string& name) {
    auto y = x.matmul(p[name + ".weight"].t());
    return p.contains(name + ".bias") ? y + p[name + ".bias"] : y;
  };
  auto norm = [&](const torch::Tensor& x, const std::string& name) {
    auto centred = x - x.mean(-1, true);
    return centred / (centred.square().mean(-1, true) + 1e-5).sqrt() * p[name + ".weight"] +
           p[name + ".bias"];
  };
  auto convolve = [&](const torch::Tensor& x, const std::string& name, int64_t stride) {  // x [T, channels]
    std::vector<torch::Tensor> rows;
    for (int64_t centre = 0; centre < x.size(0); centre += stride) {
      auto sum = p[name + ".bias"];
      for (int64_t k = 0; k < 3; ++k)
        if (const auto t = centre + k - 1; t >= 0 && t < x.size(0))
          sum = sum + p[name + ".weight"].select(2, k).mv(x[t]);
      rows.push_back(sum);
    }
    return gelu(torch::stack(rows));
  };
  auto x = convolve(convolve(clip.t(), "conv1", 1), "conv2", 2);
  auto positions = torch::zeros_like(x);
  const auto half = c.hidden / 2;
  for (int64_t t = 0; t < x.size(0); ++t)
    for (int64_t i = 0; i < half; ++i) {
      const double rate = std::pow(1e4, -static_cast<double>(i) / static_cast<double>(half - 1));
      positions[t][i] = std::sin(static_cast<double>(t) * rate);
      positions[t][i + half] = std::cos(static_cast<double>(t) * rate);
    }
  x = x + positions;
  const auto width = c.hidden / c.heads;
  for (int64_t layer = 0; layer < c.layers; ++layer) {
    const auto at = "blocks." + std::to_string(layer) + ".";
    auto y = norm(x, at + "attention_norm");
    auto q = linear(y, at + "q"), k = linear(y, at + "k"), v = linear(y, at + "v");
    std::vector<torch::Tensor> heads;
    for (int64_t h = 0; h < c.heads; ++h) {
      auto part = [&](const torch::Tensor& of) { return of.slice(1, h * width, (h + 1) * width); };
      auto weights = part(q).mm(part(k).t()).div(std::sqrt(static_cast<double>(width))).exp();
      heads.push_back((weights / weights.sum(1, true)).mm(part(v)));
    }
    x = x + linear(torch::cat(heads, 1), at + "o");
    x = x + linear(gelu(linear(norm(x, at + "mlp_norm"), at + "up")), at + "down");
  }
  x = norm(x, "norm");
  std::vector<torch::Tensor> tokens;
  for (int64_t from = 0; from < x.size(0); from += c.merge) {
    auto joined = torch::zeros({c.merge * c.hidden}, f64());
    auto there = x.slice(0, from, std::min(from + c.merge, x.size(0))).flatten();
    tokens.push_back(torch::cat({there, joined.slice(0, there.size(0))}));
  }
  return linear(gelu(linear(torch::stack(tokens), "merge_in")), "merge_out");
}

TEST(AudioEncoderTest, EqualsLoopsOverPositionsAndHeads) {
  torch::manual_seed(1);
  for (int64_t merge : {1, 2, 3})
    for (int64_t frames : {1, 2, 5, 8, 13}) {
      auto encoder = random_encoder(small(merge));
      auto clips = clips_of({frames});
      auto tokens = encoder(clips);
      ASSERT_EQ(tokens[0].sizes(), (std::vector<int64_t>{encoder->config().tokens(frames), 10}));
      EXPECT_LT(largest_difference(tokens[0], reference(encoder, clips[0])), 1e-11) << merge << ' ' << frames;
    }
}

TEST(AudioEncoderTest, GivesEachClipWhatItGetsAlone) {
  torch::manual_seed(2);
  for (int64_t merge : {1, 2, 4}) {
    auto encoder = random_encoder(small(merge));
    auto clips = clips_of({7, 1, 16, 9, 2, 15, 3});
    auto together = encoder(clips);
    ASSERT_EQ(together.size(), clips.size());
    auto of = encoder->parameters();
    auto loss = torch::zeros({}, f64()), alone_loss = torch::zeros({}, f64());
    for (size_t i = 0; i < clips.size(); ++i) {
      auto alone = encoder(std::vector<torch::Tensor>{clips[i]})[0];
      EXPECT_LT(largest_difference(together[i], alone), 1e-12) << i;
      auto weight = torch::randn_like(alone);
      loss = loss + (together[i] * weight).sum();
      alone_loss = alone_loss + (alone * weight).sum();
    }
    auto a = torch::autograd::grad({loss}, of), b = torch::autograd::grad({alone_loss}, of);
    for (size_t i = 0; i < of.size(); ++i)
      EXPECT_LT(largest_difference(a[i], b[i]), 1e-12 * (1 + b[i].abs().max().item<double>())) << i;
  }
}

TEST(AudioEncoderTest, CountsItsTokens) {
  AudioConfig config;
  config.merge = 2;
  EXPECT_EQ(config.tokens(1), 1);
  EXPECT_EQ(config.tokens(4), 1);
  EXPECT_EQ(config.tokens(5), 2);
  EXPECT_EQ(config.tokens(3000), 750);  // 30 s
}

TEST(AudioEncoderTest, HasTheParametersOfWhispersBlocks) {
  const auto c = small();
  AudioEncoder encoder(c);
  auto names = encoder->named_parameters();
  EXPECT_FALSE(names.contains("blocks.0.k.bias"));
  for (const char* name :
       {"conv1.bias", "conv2.weight", "blocks.0.q.bias", "blocks.1.v.bias", "blocks.1.o.bias",
        "blocks.0.up.bias", "blocks.0.attention_norm.bias", "norm.bias", "merge_out.bias"})
    EXPECT_TRUE(names.contains(name)) << name;
  const int64_t h = c.hidden, f = c.ffn, m = c.merge * h;
  const int64_t block = 4 * h * h + 3 * h + 2 * h * f + f + h + 4 * h;
  EXPECT_EQ(parameter_count(*encoder),
            3 * c.mels * h + h + 3 * h * h + h + c.layers * block + 2 * h + m * m + m + m * c.out + c.out);
}

TEST(AudioEncoderTest, GivesEveryParameterAndClipAGradient) {
  auto encoder = AudioEncoder(small());
  encoder->to(torch::kDouble);
  initialise(*encoder, 3, "audio.");
  auto clips = clips_of({5, 8});
  for (auto& clip : clips) clip.requires_grad_();
  auto tokens = encoder(clips);
  (tokens[0].square().sum() + tokens[1].square().sum()).backward();
  expect_every_gradient(*encoder);
  for (const auto& clip : clips) EXPECT_GT(clip.grad().abs().min().item<double>(), 0);
}

TEST(AudioEncoderTest, TakesNoClips) {
  EXPECT_TRUE(AudioEncoder(small())->forward({}).empty());
}

TEST(AudioEncoderTest, TellsWhatDoesNotFit) {
  auto encoder = AudioEncoder(small());
  EXPECT_EQ(error_of([&] {
              encoder->forward({torch::zeros({6, 3}), torch::zeros({5, 3})});
            }),
            "clip 1: shape [5, 3], expected [6, any]");
  EXPECT_EQ(error_of([&] {
              encoder->forward({torch::zeros({6, 0})});
            }),
            "clip 0: shape [6, 0], expected [6, any]");
  auto config = small();
  config.heads = 3;
  EXPECT_EQ(error_of([&] { config.check(); }), "audio: hidden 16 is not divisible by heads 3");
  config = small(0);
  EXPECT_EQ(error_of([&] { AudioEncoder wrong(config); }), "audio: merge is 0, expected at least 1");
}

TEST(Sinusoids, StartWithZerosAndOnes) {
  auto positions = sinusoids(3, 4, torch::zeros({1}, f64()));
  const double expected[3][4] = {
      {0, 0, 1, 1},
      {std::sin(1.0), std::sin(1e-4), std::cos(1.0), std::cos(1e-4)},
      {std::sin(2.0), std::sin(2e-4), std::cos(2.0), std::cos(2e-4)},
  };
  for (int t = 0; t < 3; ++t)
    for (int i = 0; i < 4; ++i) EXPECT_NEAR(positions[t][i].item<double>(), expected[t][i], 1e-15);
}

}  // namespace
}  // namespace bigmac::nn
