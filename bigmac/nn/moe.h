#pragma once

#include <vector>

#include "bigmac/nn/blocks.h"

// The mixture of experts of Qwen3-MoE (Qwen3 technical report, 2025): no shared expert, no capacity limit,
// no token is dropped.
namespace bigmac::nn {

struct MoeConfig {
  int64_t experts = 128;
  int64_t experts_per_token = 8;
  int64_t ffn = 768;            // of one expert
  bool normalise_top_k = true;  // a token's weights of its experts add up to 1

  void check() const;  // Throws InvalidInput where a size is not positive or k exceeds the experts.
};

// Over the n valid tokens of one layer and call, with p_te the router's probability, x_te its logit:
//   balance = experts * sum_e f_e P_e,  f_e = tokens that chose e among their k / n,  P_e = mean_t p_te
//     (Switch Transformers, Fedus et al. 2022, eq. 4-6, with f over all k choices as Qwen3-MoE's
//     router_aux_loss_coef expects it: k where the load is even. Megatron Core's is this / k.)
//   z = mean_t (log sum_e exp x_te)^2  (ST-MoE, Zoph et al. 2022, eq. 5)
// Both scalars in float32 or float64; gradients flow through P and x, not through f. 0 where n = 0.
struct RouterLosses {
  torch::Tensor balance, z;
  torch::Tensor load;  // [experts] int64: tokens that chose each expert; its sum is n * k
};

struct MoeOutput {
  torch::Tensor x;  // shaped as the input
  RouterLosses losses;
};

// router: hidden -> experts, without bias; softmax over all experts in float32 (float64 for float64), the
// k largest, then sum over them of weight * SwiGLU expert. Tokens are grouped by expert, so that each expert
// runs once over its tokens; one that got none has a zero gradient, not a missing one.
// Parameters: router, experts.E.{gate, up, down}.
class MoeImpl : public torch::nn::Module {
 public:
  MoeImpl(int64_t hidden, const MoeConfig& config);
  const MoeConfig& config() const { return config_; }

  // x [..., hidden], any number of tokens, 0 included; mask [...] bool, true = valid, undefined = all are.
  // Other tokens are not routed: they count nowhere and their output is 0.
  // Waits for the device once for the experts' loads and, with a mask, once more.
  MoeOutput forward(const torch::Tensor& x, const torch::Tensor& mask = {});

 private:
  int64_t hidden_;
  MoeConfig config_;
  torch::nn::Linear router_;
  std::vector<GatedMlp> experts_;
};
TORCH_MODULE(Moe);

}  // namespace bigmac::nn
