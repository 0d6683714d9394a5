#include "bigmac/nn/decoder.h"

#include <cmath>
#include <set>

#include "bigmac/nn/initialise.h"
#include "support.h"

using namespace bigmac::nn;
using namespace bigmac::nn::test;

namespace {

constexpr int64_t picture_token = 30;

DecoderConfig small_decoder() {
  DecoderConfig config;
  config.vocabulary = 32;
  config.hidden = 24;
  config.layers = 4;
  config.heads = 4;
  config.kv_heads = 2;
  config.head_dim = 8;
  config.ffn = 40;
  return config;
}

Decoder seeded(Decoder decoder, torch::ScalarType type = torch::kDouble) {
  decoder->to(type);
  initialise(*decoder, 11, "decoder.");
  return decoder;
}

torch::Tensor run_all(Decoder& decoder, torch::Tensor x) {
  for (auto layer : decoder->layers()) x = decoder->run(layer, x);
  return x;
}

torch::Tensor logits_of(Decoder& decoder, const torch::Tensor& tokens) {
  auto x = run_all(decoder, decoder->embed(tokens, {}, {}, picture_token));
  return decoder->logits(decoder->states(x));
}

torch::Tensor text_tokens(int64_t batch, int64_t length) {
  return torch::randint(0, 30, {batch, length});
}

// A layer as plain multi-head attention over loops; query head h reads key/value head h / (heads / kv_heads).
torch::Tensor reference_layer(DecoderLayer& layer, const DecoderConfig& c, const torch::Tensor& input) {
  auto p = layer->named_parameters();
  auto norm = [&](const torch::Tensor& x, const char* name) {
    return x / (x.pow(2).mean(-1, true) + c.eps).sqrt() * p[name];
  };
  auto project = [&](const torch::Tensor& x, const char* name) { return x.mm(p[name].t()); };
  const auto length = input.size(1), half = c.head_dim / 2;
  auto turned = [&](const torch::Tensor& x) {
    auto y = torch::empty_like(x);
    for (int64_t t = 0; t < length; ++t)
      for (int64_t i = 0; i < half; ++i) {
        const double angle =
            static_cast<double>(t) *
            std::pow(c.rope_theta, -2.0 * static_cast<double>(i) / static_cast<double>(c.head_dim));
        y[t][i] = x[t][i] * std::cos(angle) - x[t][i + half] * std::sin(angle);
        y[t][i + half] = x[t][i] * std::sin(angle) + x[t][i + half] * std::cos(angle);
      }
    return y;
  };
  std::vector<torch::Tensor> samples;
  for (int64_t b = 0; b < input.size(0); ++b) {
    auto x = input[b];
    auto y = norm(x, "attention_norm.weight");
    auto q = project(y, "attention.q.weight"), k = project(y, "attention.k.weight");
    auto v = project(y, "attention.v.weight");
    std::vector<torch::Tensor> heads;
    for (int64_t h = 0; h < c.heads; ++h) {
      const auto from = h * c.head_dim, shared = h / (c.heads / c.kv_heads) * c.head_dim;
      auto qh = turned(norm(q.slice(1, from, from + c.head_dim), "attention.q_norm.weight"));
      auto kh = turned(norm(k.slice(1, shared, shared + c.head_dim), "attention.k_norm.weight"));
      auto vh = v.slice(1, shared, shared + c.head_dim);
      std::vector<torch::Tensor> results;
      for (int64_t t = 0; t < length; ++t) {
        auto weight = (kh.slice(0, 0, t + 1).mv(qh[t]) / std::sqrt(static_cast<double>(c.head_dim))).exp();
        results.push_back((weight / weight.sum()).unsqueeze(0).mm(vh.slice(0, 0, t + 1))[0]);
      }
      heads.push_back(torch::stack(results));
    }
    x = x + project(torch::cat(heads, 1), "attention.o.weight");
    y = norm(x, "mlp_norm.weight");
    auto gate = project(y, "mlp.gate.weight");
    samples.push_back(x + project(gate * gate.sigmoid() * project(y, "mlp.up.weight"), "mlp.down.weight"));
  }
  return torch::stack(samples);
}

}  // namespace

TEST(DecoderConfigTest, NamesTheNumbersWhichDoNotDivide) {
  auto config = small_decoder();
  config.kv_heads = 3;
  EXPECT_EQ(error_of([&] { config.check(); }), "decoder: heads 4 is not divisible by kv_heads 3");
  config = small_decoder();
  config.head_dim = 7;
  EXPECT_EQ(error_of([&] { config.check(); }), "decoder: head_dim 7 is not divisible by 2");
  config.head_dim = -8;
  EXPECT_EQ(error_of([&] { DecoderLayer layer(config); }), "decoder: head_dim is -8, expected at least 1");
  EXPECT_NO_THROW(DecoderConfig().check());
}

TEST(DecoderLayerTest, EqualsPlainMultiHeadAttentionWhereHeadsShareNoKeys) {
  auto config = small_decoder();
  config.kv_heads = config.heads;
  DecoderLayer layer(config);
  layer->to(torch::kDouble);
  for (auto& parameter : layer->parameters()) torch::nn::init::normal_(parameter, 0.1, 0.4);
  auto x = torch::randn({2, 5, config.hidden}, f64());
  auto turn = rotary(torch::arange(5), config.head_dim, config.rope_theta, x);
  EXPECT_LT(largest_difference(layer(x, turn), reference_layer(layer, config, x)), 1e-11);
}

TEST(DecoderLayerTest, SharesEachKeyHeadAmongNeighbouringQueryHeads) {
  auto config = small_decoder();
  DecoderLayer layer(config);
  layer->to(torch::kDouble);
  for (auto& parameter : layer->parameters()) torch::nn::init::normal_(parameter, 0.1, 0.4);
  auto x = torch::randn({2, 5, config.hidden}, f64());
  auto turn = rotary(torch::arange(5), config.head_dim, config.rope_theta, x);
  EXPECT_LT(largest_difference(layer(x, turn), reference_layer(layer, config, x)), 1e-11);
}

TEST(DecoderLayerTest, HasTheParametersOfAQwen3Layer) {
  DecoderConfig config;
  config.hidden = 2048;
  config.heads = 32;
  config.kv_heads = 4;
  config.head_dim = 128;
  config.ffn = 16;
  DecoderLayer layer(config);
  int64_t attention = 0, all = 0;
  for (const auto& item : layer->named_parameters()) {
    all += item.value().numel();
    if (item.key().rfind("attention.", 0) == 0) attention += item.value().numel();
  }
  EXPECT_EQ(attention, 18'874'624);
  EXPECT_EQ(all, 18'874'624 + 3 * 2048 * 16 + 2 * 2048);
}

TEST(DecoderTest, GivesLogitsOverTheVocabulary) {
  auto decoder = seeded(Decoder::whole(DecoderConfig()), torch::kFloat);
  auto logits = logits_of(decoder, torch::randint(0, 29, {2, 7}));
  EXPECT_EQ(logits.sizes(), (std::vector<int64_t>{2, 7, 264}));
  EXPECT_EQ(logits.scalar_type(), torch::kFloat);
  const int64_t layer = 128 * 128 * 2 + 128 * 64 * 2 + 64 + 3 * 128 * 384 + 256;
  EXPECT_EQ(parameter_count(*decoder), 264 * 128 + 8 * layer + 128);
}

TEST(DecoderTest, DoesNotSeeLaterTokens) {
  auto decoder = seeded(Decoder::whole(small_decoder()));
  auto tokens = text_tokens(2, 8);
  auto before = logits_of(decoder, tokens);
  for (int64_t t : {1, 4, 7}) {
    auto changed = tokens.clone();
    changed.select(1, t).copy_((changed.select(1, t) + 1) % 30);
    auto after = logits_of(decoder, changed);
    EXPECT_TRUE(torch::equal(before.slice(1, 0, t), after.slice(1, 0, t))) << t;
    EXPECT_GT(largest_difference(before.slice(1, t), after.slice(1, t)), 1e-3) << t;
  }
}

TEST(DecoderTest, SeesTheOrderOfEarlierTokens) {
  auto decoder = seeded(Decoder::whole(small_decoder()));
  auto a = logits_of(decoder, torch::tensor({{1, 2, 3}})), b = logits_of(decoder, torch::tensor({{2, 1, 3}}));
  EXPECT_GT(largest_difference(a.select(1, 2), b.select(1, 2)), 1e-4);
}

TEST(DecoderTest, IgnoresPaddingOnTheRight) {
  auto decoder = seeded(Decoder::whole(small_decoder()));
  auto tokens = text_tokens(2, 6);
  auto padded = torch::cat({tokens, torch::zeros({2, 5}, torch::kLong)}, 1);
  EXPECT_LT(largest_difference(logits_of(decoder, tokens), logits_of(decoder, padded).slice(1, 0, 6)), 1e-12);
}

TEST(DecoderTest, CutIntoPartsEqualsTheWholeBitForBit) {
  for (bool tied : {true, false})
    for (auto type : {torch::kFloat, torch::kDouble}) {
      auto config = small_decoder();
      config.tied_embeddings = tied;
      auto whole = seeded(Decoder::whole(config), type);
      auto first = seeded(Decoder(config, std::vector<int64_t>{0}, true, false), type);
      auto middle = seeded(Decoder(config, std::vector<int64_t>{1, 2}, false, false), type);
      auto last = seeded(Decoder(config, std::vector<int64_t>{3}, false, true), type);

      auto expected = whole->named_parameters();
      std::multiset<std::string> names;
      for (auto* part : {&first, &middle, &last})
        for (const auto& item : (*part)->named_parameters()) {
          names.insert(item.key());
          ASSERT_TRUE(expected.contains(item.key())) << item.key();
          EXPECT_TRUE(torch::equal(item.value(), expected[item.key()])) << item.key();
        }
      for (const auto& item : expected)
        EXPECT_EQ(names.count(item.key()), tied && item.key() == "embedding.weight" ? 2 : 1) << item.key();
      EXPECT_EQ(expected.contains("head.weight"), !tied);

      auto tokens = text_tokens(2, 6);
      auto x = run_all(middle, run_all(first, first->embed(tokens, {}, {}, picture_token)));
      auto logits = last->logits(last->states(run_all(last, x)));
      EXPECT_TRUE(torch::equal(logits, logits_of(whole, tokens)));
    }
}

TEST(DecoderTest, NamesItsParametersGlobally) {
  auto config = small_decoder();
  config.tied_embeddings = false;
  auto names = Decoder(config, std::vector<int64_t>{2}, true, true)->named_parameters().keys();
  EXPECT_EQ(std::set<std::string>(names.begin(), names.end()),
            (std::set<std::string>{
                "embedding.weight", "layers.2.attention_norm.weight", "layers.2.attention.q.weight",
                "layers.2.attention.k.weight", "layers.2.attention.v.weight", "layers.2.attention.o.weight",
                "layers.2.attention.q_norm.weight", "layers.2.attention.k_norm.weight",
                "layers.2.mlp_norm.weight", "layers.2.mlp.gate.weight", "layers.2.mlp.up.weight",
                "layers.2.mlp.down.weight", "norm.weight", "head.weight"}));
}

TEST(DecoderTest, RefusesWhatItDoesNotHold) {
  auto config = small_decoder();
  Decoder part(config, std::vector<int64_t>{1, 3}, false, false);
  auto x = torch::zeros({1, 2, config.hidden});
  EXPECT_NE(error_of([&] { part->run(2, x); }).find("layer 2 is not in this part of the decoder"),
            std::string::npos);
  EXPECT_NE(
      error_of([&] { part->embed(text_tokens(1, 2), {}, {}, picture_token); }).find("without the embedding"),
      std::string::npos);
  EXPECT_NE(error_of([&] { part->states(x); }).find("without the head"), std::string::npos);
  EXPECT_NE(error_of([&] { part->logits(x); }).find("without the head"), std::string::npos);
  EXPECT_EQ(error_of([&] { Decoder(config, std::vector<int64_t>{4}, false, false); }),
            "decoder: layer 4 of a model of 4 layers");
  EXPECT_EQ(error_of([&] {
              Decoder(config, std::vector<int64_t>{1, 1}, false, false);
            }),
            "decoder: layer 1 is given twice");
  EXPECT_NE(error_of([&] {
              part->run(1, torch::zeros({1, 2, 5}));
            }).find("shape [1, 2, 5], expected [any, any, 24]"),
            std::string::npos);
}

TEST(DecoderTest, PutsPicturesAtTheirTokensAndGivesThemGradients) {
  auto decoder = seeded(Decoder::whole(small_decoder()));
  const int P = picture_token;
  auto tokens = torch::tensor({{1, P, P, 2, 0}, {3, 4, 5, 6, 7}, {P, 8, P, 9, 0}});
  auto pictures = torch::randn({2, 2, 24}, f64()).requires_grad_();
  auto x = decoder->embed(tokens, pictures, {2, 0}, P);  // the first picture belongs to the last sample
  auto table = decoder->named_parameters()["embedding.weight"];
  for (int64_t b = 0; b < 3; ++b)
    for (int64_t t = 0; t < 5; ++t) {
      auto token = tokens[b][t].item<int64_t>();
      if (token != P) {
        EXPECT_TRUE(torch::equal(x[b][t], table[token])) << b << ' ' << t;
      }
    }
  EXPECT_TRUE(torch::equal(x[0][1], pictures[1][0]));
  EXPECT_TRUE(torch::equal(x[0][2], pictures[1][1]));
  EXPECT_TRUE(torch::equal(x[2][0], pictures[0][0]));
  EXPECT_TRUE(torch::equal(x[2][2], pictures[0][1]));

  auto weight = torch::randn_like(x);
  (x * weight).sum().backward();
  EXPECT_TRUE(torch::equal(pictures.grad()[1][1], weight[0][2]));
  EXPECT_TRUE(torch::equal(pictures.grad()[0][0], weight[2][0]));
  EXPECT_EQ(table.grad()[P].abs().max().item<double>(), 0);
  EXPECT_TRUE(torch::equal(table.grad()[8], weight[2][1]));
}

TEST(DecoderTest, PutsSeveralPicturesOfASampleInTheirOrder) {
  auto decoder = seeded(Decoder::whole(small_decoder()));
  const int P = picture_token;
  auto pictures = torch::randn({3, 1, 24}, f64());
  auto x = decoder->embed(torch::tensor({{P, 1, P}, {2, P, 3}}), pictures, {1, 0, 0}, P);
  EXPECT_TRUE(torch::equal(x[0][0], pictures[1][0]));
  EXPECT_TRUE(torch::equal(x[0][2], pictures[2][0]));
  EXPECT_TRUE(torch::equal(x[1][1], pictures[0][0]));
}

TEST(DecoderTest, TakesNoPicturesAsUndefinedOrEmpty) {
  auto decoder = seeded(Decoder::whole(small_decoder()));
  auto tokens = text_tokens(2, 3);
  auto x = decoder->embed(tokens, {}, {}, picture_token);
  EXPECT_TRUE(torch::equal(x, decoder->embed(tokens, torch::zeros({0, 2, 24}, f64()), {}, picture_token)));
}

TEST(DecoderTest, TellsWhichSampleHasAWrongNumberOfPicturePositions) {
  auto decoder = seeded(Decoder::whole(small_decoder()));
  const int P = picture_token;
  auto pictures = torch::zeros({1, 2, 24}, f64());
  auto embed = [&](const torch::Tensor& tokens, const torch::Tensor& of, const std::vector<int64_t>& rows) {
    return error_of([&] { decoder->embed(tokens, of, rows, P); });
  };
  EXPECT_NE(embed(torch::tensor({{1, 2, 3}, {P, P, P}}), pictures, {1})
                .find("sample 1 has 3 positions of the placeholder 30, but its 1 items have 2 embeddings"),
            std::string::npos);
  EXPECT_NE(embed(torch::tensor({{1, P, 3}, {P, P, 2}}), pictures, {1})
                .find("sample 0 has 1 positions of the placeholder 30, but its 0 items have 0 embeddings"),
            std::string::npos);
  EXPECT_NE(embed(torch::tensor({{1, 2, 3}}), pictures, {0}).find("sample 0 has 0 positions"),
            std::string::npos);
  EXPECT_NE(embed(torch::tensor({{1, P, P}}), {}, {}).find("sample 0 has 2 positions"), std::string::npos);
  EXPECT_NE(embed(torch::tensor({{1, P, P}}), pictures, {}).find("rows: 0 samples for 1 pictures"),
            std::string::npos);
  EXPECT_NE(embed(torch::tensor({{1, P, P}}), pictures, {1}).find("rows: sample 1 of a batch of 1"),
            std::string::npos);
  EXPECT_NE(embed(torch::tensor({{1, P, P}}), torch::zeros({1, 2, 20}), {0})
                .find("pictures: shape [1, 2, 20], expected [1, any, 24]"),
            std::string::npos);
  EXPECT_NE(embed(torch::tensor({{1, 32}}), {}, {}).find("tokens: ids from 1 to 32, expected 0 to 31"),
            std::string::npos);
  EXPECT_NE(embed(torch::zeros({1, 2}), {}, {}).find("expected int64"), std::string::npos);
}

TEST(DecoderTest, GivesEveryParameterAGradient) {
  for (bool tied : {true, false})
    for (auto type : {torch::kFloat, torch::kDouble}) {
      auto config = small_decoder();
      config.tied_embeddings = tied;
      auto decoder = seeded(Decoder::whole(config), type);
      auto tokens = text_tokens(2, 6);
      auto logits = logits_of(decoder, tokens);
      EXPECT_EQ(logits.scalar_type(), type);
      torch::nll_loss(torch::log_softmax(logits.flatten(0, 1), -1), tokens.flatten()).backward();
      expect_every_gradient(*decoder);
    }
}

TEST(DecoderTest, HasTheGradientsOfItsLoss) {
  torch::manual_seed(1);  // one draw in a hundred bends the loss too much for the difference
  DecoderConfig config;
  config.vocabulary = 11;
  config.hidden = 8;
  config.layers = 2;
  config.heads = 2;
  config.kv_heads = 1;
  config.head_dim = 4;
  config.ffn = 12;
  auto decoder = seeded(Decoder::whole(config));
  auto tokens = torch::tensor({{1, 2, 3, 4}, {5, 9, 9, 6}}), targets = torch::randint(0, 11, {8});
  auto pictures = torch::randn({1, 2, 8}, f64());
  expect_gradients_match_differences(*decoder, [&] {
    auto x = run_all(decoder, decoder->embed(tokens, pictures, {1}, 9));
    auto logits = decoder->logits(decoder->states(x));
    return torch::nll_loss(torch::log_softmax(logits.flatten(0, 1), -1), targets) * 10;
  });
}

TEST(DecoderTest, StaysCloseInBfloat16) {
  auto wide = seeded(Decoder::whole(small_decoder())),
       narrow = seeded(Decoder::whole(small_decoder()), torch::kBFloat16);
  auto tokens = text_tokens(2, 6);
  auto logits = logits_of(narrow, tokens);
  EXPECT_EQ(logits.scalar_type(), torch::kBFloat16);
  EXPECT_LT(largest_difference(logits_of(wide, tokens), logits.to(torch::kDouble)), 0.05);
}
