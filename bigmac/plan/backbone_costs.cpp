#include "bigmac/plan/backbone_costs.h"

#include <algorithm>

#include "bigmac/cost/count.h"
#include "bigmac/cost/link_time.h"

namespace bigmac {

BackboneCosts backbone_costs(const Workload& workload, const LayerKinds& kinds,
                             const cost::Parallel& parallel, int64_t microbatch, cost::Recompute recompute) {
  const auto& module = workload.backbone;
  cost::Sequences sequences{.count = double(microbatch), .tokens = workload.tokens};
  bool encoder_trained = std::any_of(workload.modules.begin(), workload.modules.end(), [](const auto& other) {
    return other.kind == Module::encoder && !other.frozen;
  });
  auto training = [&](bool is_first) {
    return cost::Training{.recompute = recompute,
                          .frozen = module.frozen,
                          .passes_gradient = encoder_trained || (!is_first && !module.frozen),
                          .expert_imbalance = module.expert_imbalance};
  };
  BackboneCosts out;
  out.times = kinds.by_layer([&](const cost::Layer& layer, bool is_first) {
    return cost::layer_time(layer, sequences, parallel, training(is_first), workload.hardware,
                            module.efficiency);
  });
  out.bytes = kinds.by_layer([&](const cost::Layer& layer, bool is_first) {
    return cost::layer_bytes(layer, module.model.hidden, sequences, parallel, training(is_first));
  });
  out.states = kinds.by_layer([&](const cost::Layer& layer, bool is_first) {
    return cost::state_bytes(layer, parallel, training(is_first), workload.precision,
                             workload.shard_optimizer);
  });
  auto one = [](const cost::Layer& layer) { return std::span<const cost::Layer>(&layer, 1); };
  out.sync = kinds.by_layer([&](const cost::Layer& layer, bool is_first) {
    return cost::gradient_sync(one(layer), parallel, training(is_first), workload.precision,
                               workload.shard_optimizer, workload.hardware, module.efficiency)
        .all();
  });
  out.optimizer = kinds.by_layer([&](const cost::Layer& layer, bool is_first) {
    return cost::optimizer_seconds(one(layer), parallel, training(is_first), workload.precision,
                                   workload.shard_optimizer, workload.hardware, module.efficiency);
  });
  constexpr double kBytes = 2;  // bf16
  out.boundary =
      sequences.count * sequences.tokens * double(module.model.hidden) * kBytes / double(parallel.tensor);
  auto flops = kinds.sum([&](const cost::Layer& layer, bool) { return cost::flops(layer, sequences); });
  out.flops = flops.forward * (module.frozen ? 1 : 3);
  return out;
}

}  // namespace bigmac
