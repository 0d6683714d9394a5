#pragma once

#include <torch/nn/modules/embedding.h>

#include <cstdint>
#include <vector>

// Token ids and the embeddings of pictures, clips and other items to the decoder's input.
// B samples of up to L tokens. Errors are InvalidInput.
namespace bigmac::nn {

struct PaddedTokens {
  torch::Tensor tokens;  // [B, L] int64
  torch::Tensor mask;    // [B, L] bool, true = a token of the sample
};

// Samples [L_b] int64, L_b >= 0 with at least one token in all, padded on the right to the longest.
PaddedTokens pad_tokens(const std::vector<torch::Tensor>& samples, int64_t pad_id);

// Of every sample, in order: the embeddings [T_i, hidden] of each of its items; T_i >= 1 may differ.
// No list at all means that no sample has an item.
using SampleItems = std::vector<std::vector<torch::Tensor>>;

// x [B, L, hidden] with the positions whose token is `placeholder` replaced, in order, by the sample's items.
// A sample whose count of such positions is not its items' sum of T_i is an error that names both.
// Waits for the device once. For a second kind of item call it again with that kind's placeholder.
torch::Tensor scatter_items(const torch::Tensor& x, const torch::Tensor& tokens, const SampleItems& items,
                            int64_t placeholder);

// tokens [B, L] int64 -> [B, L, hidden]: the table's rows, then the items as above. An id outside the table
// is an error.
torch::Tensor embed(const torch::nn::Embedding& table, const torch::Tensor& tokens, const SampleItems& items,
                    int64_t placeholder);

struct EmbeddedTokens {
  torch::Tensor x;             // [B, L, hidden]
  torch::Tensor tokens, mask;  // as PaddedTokens
};

// The same from lists. pad_id and placeholder must differ.
EmbeddedTokens embed(const torch::nn::Embedding& table, const std::vector<torch::Tensor>& samples,
                     const SampleItems& items, int64_t placeholder, int64_t pad_id);

}  // namespace bigmac::nn
