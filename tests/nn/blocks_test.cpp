#include "bigmac/nn/blocks.h"

#include <cmath>

#include "bigmac/nn/initialise.h"
#include "bigmac/nn/vision.h"
#include "support.h"

using namespace bigmac::nn;
using namespace bigmac::nn::test;

namespace {

VisionConfig small_vision() {
  VisionConfig config;
  config.picture = 16;
  config.hidden = 32;
  config.heads = 2;
  config.ffn = 48;
  config.out = 24;
  return config;
}

}  // namespace

TEST(RmsNormTest, FollowsTheFormula) {
  RmsNorm norm(3, 0.5);
  norm->to(torch::kDouble);
  {
    torch::NoGradGuard no_grad;
    norm->parameters()[0].copy_(torch::tensor({1.0, 2.0, -1.0}));
  }
  const double x[] = {3, -1, 2}, weight[] = {1, 2, -1};
  auto y = norm(torch::tensor({3.0, -1.0, 2.0}, f64()).view({1, 3}));
  const double root = std::sqrt((9 + 1 + 4) / 3.0 + 0.5);
  for (int i = 0; i < 3; ++i) EXPECT_NEAR(y[0][i].item<double>(), x[i] / root * weight[i], 1e-15);
}

TEST(RmsNormTest, NormalisesSixteenBitNumbersWhoseSquaresOverflow) {
  RmsNorm norm(4);
  norm->to(torch::kHalf);
  auto y = norm(torch::full({1, 4}, 1000.0, torch::kHalf));
  EXPECT_EQ(y.scalar_type(), torch::kHalf);
  EXPECT_EQ(y.to(torch::kDouble).sub(1).abs().max().item<double>(), 0);
}

TEST(RmsNormTest, NamesTheShapesOfAWrongInput) {
  RmsNorm norm(4);
  EXPECT_NE(error_of([&] {
              norm(torch::zeros({2, 3}));
            }).find("shape [2, 3], expected [..., 4]"),
            std::string::npos);
}

TEST(GatedMlpTest, IsTheGatedProductAndHasThreeMatrices) {
  GatedMlp mlp(6, 10);
  mlp->to(torch::kDouble);
  EXPECT_EQ(parameter_count(*mlp), 3 * 6 * 10);
  auto p = mlp->named_parameters();
  auto x = torch::randn({2, 6}, f64());
  auto gate = x.matmul(p["gate.weight"].t()), up = x.matmul(p["up.weight"].t());
  auto expected = (gate / (1 + (-gate).exp()) * up).matmul(p["down.weight"].t());
  EXPECT_LT(largest_difference(mlp(x), expected), 1e-14);
}

TEST(RotaryTest, ScoresDependOnTheDistanceOnly) {
  auto q = torch::randn({8}, f64()), k = torch::randn({8}, f64());
  auto positions = torch::arange(20);
  auto turn = rotary(positions, 8, 100.0, q);
  auto queries = rotate(q.expand({1, 1, 20, 8}), turn)[0][0];
  auto keys = rotate(k.expand({1, 1, 20, 8}), turn)[0][0];
  auto scores = queries.matmul(keys.t());
  EXPECT_LT(largest_difference(scores.slice(0, 0, 15).slice(1, 0, 15), scores.slice(0, 5).slice(1, 5)),
            1e-12);
  EXPECT_GT(std::abs((scores[0][0] - scores[3][0]).item<double>()), 1e-3);
}

TEST(RotaryTest, TurnsEachPairByPositionTimesItsFrequency) {
  auto x = torch::tensor({1.0, 2.0, 3.0, 4.0}, f64());  // pairs (1, 3) and (2, 4)
  auto y = rotate(x.view({1, 1, 1, 4}), rotary(torch::tensor({7}), 4, 100.0, x)).flatten();
  const double angle[] = {7.0, 7.0 / 10.0};  // 100^(-2/4) = 1/10
  for (int i = 0; i < 2; ++i) {
    const double c = std::cos(angle[i]), s = std::sin(angle[i]), a = i + 1, b = i + 3;
    EXPECT_NEAR(y[i].item<double>(), a * c - b * s, 1e-14);
    EXPECT_NEAR(y[i + 2].item<double>(), b * c + a * s, 1e-14);
  }
}

TEST(AxialRotaryTest, ScoresDependOnTheDistancesInRowAndColumnOnly) {
  auto q = torch::randn({8}, f64()), k = torch::randn({8}, f64());
  auto turn = axial_rotary(4, 5, 8, 50.0, q);
  auto queries = rotate(q.expand({1, 1, 20, 8}), turn)[0][0];
  auto keys = rotate(k.expand({1, 1, 20, 8}), turn)[0][0];
  auto score = [&](int r, int c, int r2, int c2) {
    return queries[r * 5 + c].dot(keys[r2 * 5 + c2]).item<double>();
  };
  EXPECT_NEAR(score(0, 0, 1, 2), score(2, 1, 3, 3), 1e-12);
  EXPECT_NEAR(score(1, 3, 0, 0), score(3, 4, 2, 1), 1e-12);
  EXPECT_GT(std::abs(score(0, 0, 1, 0) - score(0, 0, 0, 1)), 1e-4);
  EXPECT_GT(std::abs(score(0, 0, 1, 0) - score(0, 0, 2, 0)), 1e-4);
}

TEST(AxialRotaryTest, UsesHalfOfTheWidthForEachAxis) {
  auto turn = axial_rotary(3, 4, 8, 50.0, torch::zeros({1}, f64()));
  auto rows = rotary(torch::arange(3), 4, 50.0, turn.cos),
       columns = rotary(torch::arange(4), 4, 50.0, turn.cos);
  for (int64_t r = 0; r < 3; ++r)
    for (int64_t c = 0; c < 4; ++c) {
      EXPECT_TRUE(torch::equal(turn.sin[r * 4 + c].slice(0, 0, 2), rows.sin[r]));
      EXPECT_TRUE(torch::equal(turn.sin[r * 4 + c].slice(0, 2), columns.sin[c]));
    }
}

TEST(Attend, HidesMaskedKeys) {
  auto q = torch::randn({2, 2, 3, 4}, f64());
  auto k = torch::randn({2, 2, 5, 4}, f64()), v = torch::randn({2, 2, 5, 4}, f64());
  auto mask = torch::ones({2, 5}, torch::kBool);
  mask[1].slice(0, 3).fill_(false);
  auto masked = attend(q, k, v, false, mask);
  auto shorter =
      attend(q[1].unsqueeze(0), k[1].unsqueeze(0).slice(2, 0, 3), v[1].unsqueeze(0).slice(2, 0, 3), false);
  EXPECT_LT(largest_difference(masked[1], shorter[0]), 1e-14);
  EXPECT_LT(largest_difference(masked[0], attend(q, k, v, false)[0]), 1e-14);
}

TEST(Attend, TellsWhichTensorDoesNotFit) {
  auto q = torch::zeros({1, 4, 3, 8});
  EXPECT_NE(error_of([&] {
              attend(q, torch::zeros({1, 4, 3, 6}), q, false);
            }).find("keys: shape [1, 4, 3, 6], expected [1, any, any, 8]"),
            std::string::npos);
  auto k = torch::zeros({1, 3, 3, 8});
  EXPECT_NE(error_of([&] { attend(q, k, k, false); }).find("4 heads are not divisible by the 3"),
            std::string::npos);
  EXPECT_NE(error_of([&] {
              attend(q, q, q, false, torch::ones({1, 3}));
            }).find("expected bool"),
            std::string::npos);
}

TEST(Patchify, OrdersPatchesByRowAndIsUndoneByUnpatchify) {
  auto pictures = torch::randn({2, 3, 8, 12}, f64());
  auto patches = patchify(pictures, 4);
  ASSERT_EQ(patches.sizes(), (std::vector<int64_t>{2, 6, 48}));
  auto fifth = pictures.slice(2, 4, 8).slice(3, 4, 8);  // row 1, column 1 of a 2 x 3 grid
  EXPECT_TRUE(torch::equal(patches.select(1, 4), fifth.flatten(1)));
  EXPECT_TRUE(torch::equal(unpatchify(patches, 3, 8, 12, 4), pictures));
  EXPECT_NE(error_of([&] { patchify(pictures, 5); }), "");
}

TEST(VisionConfigTest, NamesTheNumbersWhichDoNotDivide) {
  auto config = small_vision();
  config.picture = 18;
  EXPECT_EQ(error_of([&] { config.check(); }), "vision: picture 18 is not divisible by patch 4");
  config.picture = 20;
  EXPECT_EQ(error_of([&] { config.check(); }), "vision: picture / patch 5 is not divisible by merge 2");
  config = small_vision();
  config.heads = 16;
  EXPECT_EQ(error_of([&] { config.check(); }), "vision: hidden / heads 2 is not divisible by 4");
  config.heads = 0;
  EXPECT_EQ(error_of([&] { VisionEncoder encoder(config); }), "vision: heads is 0, expected at least 1");
  EXPECT_NO_THROW(VisionConfig().check());
}

TEST(VisionEncoderTest, GivesTokensOfTheDecodersWidth) {
  VisionConfig config;
  VisionEncoder encoder(config);
  EXPECT_EQ(config.tokens(), 16);
  for (int64_t n : {1, 3})
    EXPECT_EQ(encoder(torch::rand({n, 3, 32, 32})).sizes(), (std::vector<int64_t>{n, 16, 128}));
  EXPECT_NE(error_of([&] {
              encoder(torch::rand({2, 3, 32, 16}));
            }).find("pictures: shape [2, 3, 32, 16], expected [any, 3, 32, 32]"),
            std::string::npos);
  EXPECT_NE(error_of([&] {
              encoder(torch::rand({0, 3, 32, 32}));
            }).find("pictures: shape [0, 3, 32, 32]"),
            std::string::npos);
}

TEST(VisionEncoderTest, HasTheCountedParameters) {
  auto c = small_vision();
  const int64_t h = c.hidden, merged = 4 * h;
  const int64_t block = 4 * h * h + 3 * h * c.ffn + 2 * h;
  const int64_t expected =
      (48 * h + h) + c.layers * block + h + (merged * merged + merged) + (merged * c.out + c.out);
  EXPECT_EQ(parameter_count(*VisionEncoder(c)), expected);
}

TEST(VisionEncoderTest, TreatsPicturesOfABatchApart) {
  VisionEncoder encoder(small_vision());
  encoder->to(torch::kDouble);
  auto pictures = torch::rand({3, 3, 16, 16}, f64());
  auto together = encoder(pictures);
  for (int64_t i = 0; i < 3; ++i)
    EXPECT_LT(largest_difference(together[i], encoder(pictures.slice(0, i, i + 1))[0]), 1e-12);
}

TEST(VisionEncoderTest, MergesNeighboursOfASquare) {
  auto config = small_vision();
  VisionEncoder encoder(config);
  encoder->to(torch::kDouble);
  initialise(*encoder, 3);
  {  // without attention and MLP a token can only see its own square of patches
    torch::NoGradGuard no_grad;
    for (auto& item : encoder->named_parameters())
      if (item.key().find(".o.") != std::string::npos || item.key().find(".down.") != std::string::npos)
        item.value().zero_();
  }
  auto pictures = torch::rand({1, 3, 16, 16}, f64());
  auto changed = pictures.clone();
  changed.slice(2, 8, 16).slice(3, 0, 8).add_(1);  // the lower left of 2 x 2 tokens
  auto difference = (encoder(pictures) - encoder(changed)).abs().amax({0, 2});
  EXPECT_GT(difference[2].item<double>(), 1e-3);
  for (int64_t other : {0, 1, 3}) EXPECT_EQ(difference[other].item<double>(), 0);
}

TEST(VisionEncoderTest, KnowsWhereAPatchIs) {
  VisionEncoder encoder(small_vision());
  encoder->to(torch::kDouble);
  auto pictures = torch::rand({1, 3, 16, 16}, f64());
  auto moved = pictures.roll({8}, {2});  // swaps the upper and the lower tokens
  auto y = encoder(pictures), z = encoder(moved).index_select(1, torch::tensor({2, 3, 0, 1}));
  EXPECT_GT(largest_difference(y, z), 1e-6);
}

TEST(VisionEncoderTest, GivesEveryParameterAGradient) {
  for (auto type : {torch::kFloat, torch::kDouble}) {
    VisionEncoder encoder(small_vision());
    encoder->to(type);
    initialise(*encoder, 1);
    auto y = encoder(torch::rand({2, 3, 16, 16}, type));
    EXPECT_EQ(y.scalar_type(), type);
    (y * torch::randn_like(y)).sum().backward();
    expect_every_gradient(*encoder);
  }
}

TEST(VisionEncoderTest, HasTheGradientsOfItsOutput) {
  auto config = small_vision();
  config.picture = 8;
  config.hidden = 16;
  config.layers = 1;
  VisionEncoder encoder(config);
  encoder->to(torch::kDouble);
  initialise(*encoder, 1);
  auto pictures = torch::rand({2, 3, 8, 8}, f64());
  expect_gradients_match_differences(*encoder, [&] { return encoder(pictures).square().sum(); });
}

TEST(Initialise, IsTheSameForASeedAndAnotherForAnother) {
  VisionEncoder a(small_vision()), b(small_vision()), c(small_vision()), d(small_vision());
  initialise(*a, 5, "vision.");
  initialise(*b, 5, "vision.");
  initialise(*c, 6, "vision.");
  initialise(*d, 5, "eyes.");
  auto other_c = c->named_parameters(), other_d = d->named_parameters(), same = b->named_parameters();
  for (const auto& item : a->named_parameters()) {
    EXPECT_TRUE(torch::equal(item.value(), same[item.key()])) << item.key();
    if (item.value().dim() < 2) continue;
    EXPECT_FALSE(torch::equal(item.value(), other_c[item.key()])) << item.key();
    EXPECT_FALSE(torch::equal(item.value(), other_d[item.key()])) << item.key();
  }
}

TEST(Initialise, RoundsTheSameNumbersToEveryDataType) {
  VisionEncoder wide(small_vision()), narrow(small_vision()), narrowest(small_vision());
  wide->to(torch::kDouble);
  narrowest->to(torch::kBFloat16);
  for (auto* encoder : {&wide, &narrow, &narrowest}) initialise(**encoder, 9);
  auto floats = narrow->named_parameters(), bfloats = narrowest->named_parameters();
  for (const auto& item : wide->named_parameters()) {
    EXPECT_TRUE(torch::equal(item.value().to(torch::kFloat), floats[item.key()])) << item.key();
    EXPECT_TRUE(torch::equal(item.value().to(torch::kBFloat16), bfloats[item.key()])) << item.key();
  }
}

TEST(Gelu, HasTheRightGradientForAGradientThatIsNotContiguous) {
  for (int round = 0; round < 5; ++round) {
    { auto stray = torch::full({200'000}, 1e30f); }
    auto x = torch::randn({8, 64, 90}).requires_grad_(),
         wide = x.detach().to(torch::kDouble).requires_grad_();
    auto gradient = torch::randn({8, 90, 64});
    safe_gelu(x).transpose(1, 2).backward(gradient);
    torch::gelu(wide).transpose(1, 2).backward(gradient.to(torch::kDouble));
    EXPECT_LT((x.grad() - wide.grad()).abs().max().item<double>(), 1e-5);
  }
}

TEST(Initialise, DrawsWithTheDeviationsOfItsRules) {
  VisionEncoder encoder{VisionConfig()};
  initialise(*encoder, 2);
  auto p = encoder->named_parameters();
  auto deviation = [&](const char* name) { return p[name].std().item<double>(); };
  auto near = [](double expected) { return 0.03 * expected; };
  EXPECT_NEAR(deviation("patch.weight"), 1 / std::sqrt(48.0), near(1 / std::sqrt(48.0)));
  EXPECT_NEAR(deviation("blocks.1.attention.q.weight"), 1 / std::sqrt(96.0), near(1 / std::sqrt(96.0)));
  EXPECT_NEAR(deviation("blocks.1.attention.o.weight"), 1 / std::sqrt(96.0 * 4),
              near(1 / std::sqrt(96.0 * 4)));
  EXPECT_NEAR(deviation("blocks.0.mlp.down.weight"), 1 / std::sqrt(256.0 * 4),
              near(1 / std::sqrt(256.0 * 4)));
  EXPECT_TRUE(torch::equal(p["norm.weight"], torch::ones({96})));
  EXPECT_TRUE(torch::equal(p["merge_in.bias"], torch::zeros({384})));
}
