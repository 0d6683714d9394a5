#include <numeric>

#include "bigmac/nn/decoder.h"
#include "bigmac/nn/initialise.h"
#include "support.h"

namespace bigmac::nn {
namespace {

using namespace test;

constexpr int64_t placeholder = 30, pad = 31;

DecoderConfig small(bool mixture = false) {
  DecoderConfig config;
  config.vocabulary = 32;
  config.hidden = 24;
  config.layers = 3;
  config.heads = 4;
  config.kv_heads = 2;
  config.head_dim = 8;
  config.ffn = 40;
  config.tied_embeddings = false;
  if (mixture) config.moe = MoeConfig{5, 2, 12, true};
  return config;
}

torch::nn::Embedding random_table(int64_t hidden = 24) {
  torch::nn::Embedding table(32, hidden);
  table->to(torch::kDouble);
  return table;
}

torch::Tensor ids(const std::vector<int64_t>& values) {
  return torch::tensor(values, torch::kLong);
}

template <class Module>
Module seeded(Module module, const char* prefix) {
  module->to(torch::kDouble);
  initialise(*module, 5, prefix);
  return module;
}

TEST(DecoderPieces, GiveTheLogitsOfTheWholeDecoder) {
  for (bool mixture : {false, true}) {
    const auto config = small(mixture);
    auto whole = Decoder::whole(config);
    whole->to(torch::kDouble);
    initialise(*whole, 5, "llm.");
    auto table = seeded(torch::nn::Embedding(config.vocabulary, config.hidden), "llm.embedding.");
    auto tokens = torch::randint(0, 30, {2, 6});
    auto expected = whole->embed(tokens, {}, {}, placeholder), x = embed(table, tokens, {}, placeholder);
    EXPECT_TRUE(torch::equal(x, expected));
    for (int64_t i = 0; i < config.layers; ++i) {
      auto layer = seeded(DecoderLayer(config), concat("llm.layers.", i, ".").c_str());
      auto turn = rotary(torch::arange(6), config.head_dim, config.rope_theta, x);
      EXPECT_TRUE(torch::equal(layer(x), layer(x, turn)));
      x = layer(x);
      expected = whole->run(i, expected);
      EXPECT_TRUE(torch::equal(x, expected)) << i;
    }
    auto head = seeded(DecoderHead(config.hidden, config.vocabulary, config.eps), "llm.head.");
    EXPECT_TRUE(torch::equal(head(x), whole->logits(whole->states(expected))));
    EXPECT_TRUE(torch::equal(head->logits(head->states(x)), head(x)));
  }
}

TEST(DecoderPieces, CarryTheNamesOfACheckpoint) {
  DecoderHead head(24, 32);
  EXPECT_EQ(head->named_parameters().keys(), (std::vector<std::string>{"weight", "norm.weight"}));
  EXPECT_EQ(head->weight().sizes(), (std::vector<int64_t>{32, 24}));
  auto names = DecoderLayer(small(true))->named_parameters();
  EXPECT_TRUE(names.contains("mlp.router.weight"));
  EXPECT_TRUE(names.contains("mlp.experts.4.down.weight"));
  EXPECT_FALSE(names.contains("mlp.gate.weight"));
}

TEST(DecoderPieces, GiveTheRoutersLossesOverTheValidTokensOnly) {
  auto layer = seeded(DecoderLayer(small(true)), "llm.layers.1.");
  auto x = torch::randn({2, 6, 24}, f64());
  auto mask = torch::ones({2, 6}, torch::kBool);
  mask[1].slice(0, 4).fill_(false);
  auto changed = x.clone();
  changed[1].slice(0, 4).normal_();
  auto a = layer->run(x, {}, mask), b = layer->run(changed, {}, mask);
  EXPECT_EQ(a.losses.load.sum().item<int64_t>(), 2 * 10);
  EXPECT_TRUE(torch::equal(a.losses.balance, b.losses.balance));
  EXPECT_TRUE(torch::equal(a.losses.z, b.losses.z));
  EXPECT_LT(largest_difference(a.x[0], layer(x)[0]), 1e-14);
  EXPECT_LT(largest_difference(a.x[1].slice(0, 0, 4), layer(x)[1].slice(0, 0, 4)), 1e-14);
  auto dense = seeded(DecoderLayer(small()), "llm.layers.1.");
  EXPECT_FALSE(dense->run(x, {}, mask).losses.balance.defined());
}

TEST(DecoderPieces, HaveTheGradientsOfTheirLosses) {
  torch::manual_seed(1);  // no token is as near to another choice of experts as the difference reaches
  auto config = small(true);
  config.hidden = 8;
  auto layer = seeded(DecoderLayer(config), "llm.layers.0.");
  auto x = torch::randn({2, 4, 8}, f64());
  auto mask = torch::ones({2, 4}, torch::kBool);
  mask[0][3] = false;
  expect_gradients_match_differences(*layer, [&] {
    auto output = layer->run(x, {}, mask);
    return output.x.square().sum() + output.losses.balance + output.losses.z;
  });
}

TEST(PadTokens, PadsOnTheRightToTheLongest) {
  auto padded = pad_tokens({ids({1, 2}), ids({}), ids({3, 4, 5})}, 9);
  EXPECT_TRUE(torch::equal(padded.tokens, torch::tensor({{1, 2, 9}, {9, 9, 9}, {3, 4, 5}}, torch::kLong)));
  EXPECT_TRUE(torch::equal(padded.mask,
                           torch::tensor({{1, 1, 0}, {0, 0, 0}, {1, 1, 1}}, torch::kLong).to(torch::kBool)));
  EXPECT_EQ(error_of([] { pad_tokens({}, 0); }), "tokens: no sample, expected at least 1");
  EXPECT_EQ(error_of([] {
              pad_tokens({ids({}), ids({})}, 0);
            }),
            "tokens: all 2 samples are empty, expected at least 1 token");
  EXPECT_EQ(error_of([] {
              pad_tokens({ids({1}), torch::zeros({2})}, 0);
            }),
            "tokens of sample 1: type Float, expected int64");
  EXPECT_EQ(error_of([] {
              pad_tokens({torch::zeros({2, 2}, torch::kLong)}, 0);
            }),
            "tokens of sample 0: expected one dimension");
}

TEST(Embed, PutsItemsOfDifferentLengthsAtTheirPlacesForRandomSamples) {
  torch::manual_seed(12);
  auto table = random_table();
  auto whole = [](int64_t from, int64_t to) { return torch::randint(from, to + 1, {}).item<int64_t>(); };
  for (int round = 0; round < 10; ++round) {
    std::vector<torch::Tensor> samples;
    SampleItems items;
    std::vector<std::vector<torch::Tensor>> expected;  // rows of each sample
    for (int64_t b = whole(1, 4); b > 0; --b) {
      std::vector<int64_t> tokens;
      std::vector<torch::Tensor> rows;
      items.emplace_back();
      auto text = [&](int64_t count) {
        for (; count > 0; --count) {
          tokens.push_back(whole(0, 29));
          rows.push_back(table->weight[tokens.back()]);
        }
      };
      text(whole(1, 3));
      for (int64_t n = whole(0, 3); n > 0; --n) {
        items.back().push_back(torch::randn({whole(1, 4), 24}, f64()));
        for (int64_t t = 0; t < items.back().back().size(0); ++t) {
          tokens.push_back(placeholder);
          rows.push_back(items.back().back()[t]);
          if (whole(0, 2) == 0) text(1);  // an item's positions need not be next to each other
        }
      }
      samples.push_back(ids(tokens));
      expected.push_back(rows);
    }
    auto result = embed(table, samples, items, placeholder, pad);
    for (size_t b = 0; b < samples.size(); ++b) {
      const auto length = samples[b].size(0);
      EXPECT_TRUE(torch::equal(result.x[b].slice(0, 0, length), torch::stack(expected[b])));
      EXPECT_EQ(result.mask[b].sum().item<int64_t>(), length);
      for (int64_t t = length; t < result.x.size(1); ++t)
        EXPECT_TRUE(torch::equal(result.x[b][t], table->weight[pad]));
    }
  }
}

TEST(Embed, GivesEveryItemItsGradientAndTakesSeveralKinds) {
  auto table = random_table();
  auto picture = torch::randn({2, 24}, f64()).requires_grad_();
  auto clip = torch::randn({1, 24}, f64()).requires_grad_();
  auto tokens = torch::tensor({{int64_t{1}, placeholder, placeholder, int64_t{29}}}, torch::kLong);
  auto x = embed(table, tokens, {{picture}}, placeholder);
  x = scatter_items(x, tokens, {{clip}}, 29);
  auto weight = torch::randn_like(x);
  (x * weight).sum().backward();
  EXPECT_TRUE(torch::equal(picture.grad(), weight[0].slice(0, 1, 3)));
  EXPECT_TRUE(torch::equal(clip.grad()[0], weight[0][3]));
  EXPECT_TRUE(torch::equal(table->weight.grad()[1], weight[0][0]));
  EXPECT_EQ(table->weight.grad()[29].abs().max().item<double>(), 0);
}

TEST(Embed, NamesTheSampleAndBothCounts) {
  auto table = random_table();
  auto item = [](int64_t rows) { return torch::zeros({rows, 24}, f64()); };
  auto error = [&](const SampleItems& items) {
    return error_of([&] {
      embed(table, {ids({1, 2}), ids({placeholder, placeholder, placeholder})}, items, placeholder, pad);
    });
  };
  EXPECT_EQ(error({{}, {item(1), item(2)}}), "");
  EXPECT_EQ(error({{}, {item(2), item(2)}}),
            "tokens: sample 1 has 3 positions of the placeholder 30, but its 2 items have 4 embeddings");
  EXPECT_EQ(error({{item(1)}, {item(3)}}),
            "tokens: sample 0 has 0 positions of the placeholder 30, but its 1 items have 1 embeddings");
  EXPECT_EQ(error({}),
            "tokens: sample 1 has 3 positions of the placeholder 30, but its 0 items have 0 embeddings");
  EXPECT_EQ(error({{}, {}, {}}),
            "items: lists for 3 samples, expected 2 as there are rows of tokens, or none");
  EXPECT_EQ(error({{}, {item(1), torch::zeros({2, 7})}}),
            "item 1 of sample 1: shape [2, 7], expected [any, 24]");
  EXPECT_EQ(error_of([&] {
              embed(table, {ids({1, 40})}, {}, placeholder, pad);
            }),
            "tokens: ids from 1 to 40, expected 0 to 31");
  EXPECT_EQ(error_of([&] { embed(table, {ids({1})}, {}, 7, 7); }),
            "tokens: the padding and the placeholder are both 7, expected different ids");
}

TEST(HeadZLoss, SumsTheSquaredLogsOfTheSums) {
  torch::manual_seed(2);
  auto logits = torch::randn({2, 3, 5}, f64());
  auto mask = torch::tensor({{1, 0, 1}, {1, 1, 0}}, torch::kLong).to(torch::kBool);
  double all = 0, valid = 0;
  for (int64_t b = 0; b < 2; ++b)
    for (int64_t t = 0; t < 3; ++t) {
      double sum = 0;
      for (int64_t v = 0; v < 5; ++v) sum += std::exp(logits[b][t][v].item<double>());
      const double square = std::log(sum) * std::log(sum);
      all += square;
      if (mask[b][t].item<bool>()) valid += square;
    }
  EXPECT_NEAR(head_z_loss(logits).item<double>(), all, 1e-12);
  EXPECT_NEAR(head_z_loss(logits, mask).item<double>(), valid, 1e-12);
  EXPECT_EQ(head_z_loss(logits, torch::zeros({2, 3}, torch::kBool)).item<double>(), 0);
  EXPECT_EQ(head_z_loss(logits.to(torch::kBFloat16)).scalar_type(), torch::kFloat);
  EXPECT_EQ(error_of([&] {
              head_z_loss(logits, torch::ones({3, 2}, torch::kBool));
            }),
            "mask of the logits: shape [3, 2], expected [2, 3]");
}

}  // namespace
}  // namespace bigmac::nn
