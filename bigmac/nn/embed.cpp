#include "bigmac/nn/embed.h"

#include <algorithm>

#include "bigmac/nn/check.h"

namespace bigmac::nn {
namespace {

void expect_tokens(const torch::Tensor& tokens) {
  expect_shape(tokens, "tokens", {any_size, any_size});
  expect_type(tokens, "tokens", torch::kLong);
}

// The number of embeddings each sample's items have.
std::vector<int64_t> item_lengths(const SampleItems& items, int64_t batch, int64_t hidden) {
  std::vector<int64_t> lengths(batch, 0);
  if (items.empty()) return lengths;
  expect(static_cast<int64_t>(items.size()) == batch, "items: lists for ", items.size(),
         " samples, expected ", batch, " as there are rows of tokens, or none");
  for (int64_t sample = 0; sample < batch; ++sample)
    for (size_t i = 0; i < items[sample].size(); ++i) {
      const auto name = concat("item ", i, " of sample ", sample);
      expect_shape(items[sample][i], name.c_str(), {any_size, hidden});
      lengths[sample] += items[sample][i].size(0);
    }
  return lengths;
}

void expect_counts(const int64_t* counts, const std::vector<int64_t>& lengths, const SampleItems& items,
                   int64_t placeholder) {
  for (size_t sample = 0; sample < lengths.size(); ++sample)
    expect(counts[sample] == lengths[sample], "tokens: sample ", sample, " has ", counts[sample],
           " positions of the placeholder ", placeholder, ", but its ",
           items.empty() ? 0 : items[sample].size(), " items have ", lengths[sample], " embeddings");
}

torch::Tensor replace(const torch::Tensor& x, const torch::Tensor& places, const SampleItems& items) {
  std::vector<torch::Tensor> rows;
  for (const auto& sample : items)
    for (const auto& item : sample) rows.push_back(item.to(x.scalar_type()));
  if (rows.empty()) return x;
  return x.masked_scatter(places.unsqueeze(-1), torch::cat(rows));
}

}  // namespace

PaddedTokens pad_tokens(const std::vector<torch::Tensor>& samples, int64_t pad_id) {
  expect(!samples.empty(), "tokens: no sample, expected at least 1");
  int64_t longest = 0;
  for (size_t i = 0; i < samples.size(); ++i) {
    const auto name = concat("tokens of sample ", i);
    expect(samples[i].defined() && samples[i].dim() == 1, name, ": expected one dimension");
    expect_type(samples[i], name.c_str(), torch::kLong);
    longest = std::max(longest, samples[i].size(0));
  }
  expect(longest > 0, "tokens: all ", samples.size(), " samples are empty, expected at least 1 token");
  const auto batch = static_cast<int64_t>(samples.size());
  auto tokens = torch::full({batch, longest}, pad_id, samples[0].options());
  auto mask = torch::zeros({batch, longest}, samples[0].options().dtype(torch::kBool));
  for (int64_t i = 0; i < batch; ++i) {
    tokens[i].narrow(0, 0, samples[i].size(0)).copy_(samples[i]);
    mask[i].narrow(0, 0, samples[i].size(0)).fill_(true);
  }
  return {tokens, mask};
}

torch::Tensor scatter_items(const torch::Tensor& x, const torch::Tensor& tokens, const SampleItems& items,
                            int64_t placeholder) {
  expect_tokens(tokens);
  expect_shape(x, "embeddings", {tokens.size(0), tokens.size(1), any_size});
  const auto lengths = item_lengths(items, tokens.size(0), x.size(2));
  auto places = tokens == placeholder;
  auto counts = places.sum(1).to(torch::kCPU);
  expect_counts(counts.data_ptr<int64_t>(), lengths, items, placeholder);
  return replace(x, places, items);
}

torch::Tensor embed(const torch::nn::Embedding& table, const torch::Tensor& tokens, const SampleItems& items,
                    int64_t placeholder) {
  expect_tokens(tokens);
  const auto batch = tokens.size(0), vocabulary = table->weight.size(0);
  const auto lengths = item_lengths(items, batch, table->weight.size(1));
  auto places = tokens == placeholder;
  auto seen =
      torch::cat({places.sum(1), tokens.min().reshape({1}), tokens.max().reshape({1})}).to(torch::kCPU);
  const auto* counts = seen.data_ptr<int64_t>();
  expect(counts[batch] >= 0 && counts[batch + 1] < vocabulary, "tokens: ids from ", counts[batch], " to ",
         counts[batch + 1], ", expected 0 to ", vocabulary - 1);
  expect_counts(counts, lengths, items, placeholder);
  return replace(table.ptr()->forward(tokens), places, items);
}

EmbeddedTokens embed(const torch::nn::Embedding& table, const std::vector<torch::Tensor>& samples,
                     const SampleItems& items, int64_t placeholder, int64_t pad_id) {
  expect(pad_id != placeholder, "tokens: the padding and the placeholder are both ", pad_id,
         ", expected different ids");
  auto padded = pad_tokens(samples, pad_id);
  return {embed(table, padded.tokens, items, placeholder), padded.tokens, padded.mask};
}

}  // namespace bigmac::nn
