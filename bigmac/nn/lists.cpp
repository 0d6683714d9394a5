#include "bigmac/nn/lists.h"

#include <torch/nn/functional/loss.h>
#include <torch/nn/utils/rnn.h>

#include "bigmac/common/error.h"

namespace bigmac::nn {

torch::Tensor text_loss(DecoderHeadImpl& head, const torch::Tensor& states,
                        const std::vector<torch::Tensor>& labels) {
  if (states.dim() != 3 || states.size(0) != int64_t(labels.size()))
    throw InvalidInput(concat("states: ", states.sizes(), " for the labels of ", labels.size(),
                              " samples, expected [samples, positions, hidden]"));
  auto padded = torch::nn::utils::rnn::pad_sequence(labels, true, double(kNoLabel));
  if (padded.size(1) > states.size(1))
    throw InvalidInput(concat("labels: ", padded.size(1), " positions, the states have ", states.size(1)));
  auto flat = padded.flatten();
  auto counted = flat.ne(kNoLabel).nonzero().flatten();
  if (counted.numel() == 0) return {};
  auto logits = head.logits(states.slice(1, 0, padded.size(1)).flatten(0, 1).index_select(0, counted));
  if (at::elementSize(logits.scalar_type()) < 4) logits = logits.to(torch::kFloat32);
  return torch::nn::functional::cross_entropy(
      logits, flat.index_select(0, counted),
      torch::nn::functional::CrossEntropyFuncOptions().reduction(torch::kSum));
}

PaddedStates pad_states(const std::vector<torch::Tensor>& states) {
  std::vector<torch::Tensor> masks;
  for (const auto& sequence : states)
    masks.push_back(
        torch::ones({sequence.size(0)}, sequence.options().dtype(torch::kBool).requires_grad(false)));
  return {torch::nn::utils::rnn::pad_sequence(states, true),
          torch::nn::utils::rnn::pad_sequence(masks, true)};
}

}  // namespace bigmac::nn
