#include "bigmac/plan/module_costs.h"

#include <algorithm>

#include "bigmac/cost/count.h"
#include "bigmac/cost/link_time.h"

namespace bigmac {
namespace {

cost::Sequences sequences_of(const WorkloadModule& module, double tokens) {
  return {.count = 1, .tokens = tokens, .text = module.text, .merge = module.model.merge};
}

// A generator's input is the backbone's output; nothing trained lies before an encoder's first layer.
cost::Training training_of(const WorkloadModule& module, cost::Recompute recompute, bool is_first) {
  bool behind_trained = !is_first && !module.frozen;
  return {.recompute = recompute,
          .frozen = module.frozen,
          .passes_gradient = module.kind == Module::generator || behind_trained,
          .expert_imbalance = module.expert_imbalance};
}

}  // namespace

ModuleWork module_work(const Workload& workload, size_t n, const LayerKinds& kinds,
                       const ModulePlacement& placement, cost::Recompute recompute) {
  const auto& module = workload.modules[n];
  const auto& layers = module.model.layers;
  auto sequences = sequences_of(module, module.items.tokens);
  cost::Parallel parallel{.tensor = placement.tensor, .pipeline = 1, .data = placement.replicas};
  int64_t shard = std::max<int64_t>(placement.shard / placement.tensor, 1);
  auto training = training_of(module, recompute, false);
  ModuleWork out;

  auto time = kinds.sum([&](const cost::Layer& layer, bool is_first) {
    return cost::layer_time(layer, sequences, parallel, training_of(module, recompute, is_first),
                            workload.hardware, module.efficiency);
  });
  out.costs = {time.forward, time.backward()};

  struct Kept {
    double kept = 0, working = 0;
    Kept& operator+=(const Kept& other) {
      kept += other.kept;
      working = std::max(working, other.working);
      return *this;
    }
  };
  auto kept = kinds.sum([&](const cost::Layer& layer, bool is_first) {
    auto bytes = cost::layer_bytes(layer, module.model.hidden, sequences, parallel,
                                   training_of(module, recompute, is_first));
    return Kept{bytes.kept, bytes.working};
  });
  out.kept = kept.kept;
  out.working = kept.working;
  constexpr double kBytes = 2;  // bf16
  double rows = module.kind == Module::encoder ? cost::rows_of(cost::Rows::merged, sequences) : module.text;
  int64_t width = module.kind == Module::encoder ? module.model.out * module.model.features
                                                 : workload.backbone.model.hidden;
  out.out = rows * double(width) * kBytes / double(placement.tensor);

  auto state = kinds.sum([&](const cost::Layer& layer, bool) {
    return cost::state_bytes(layer, parallel, training, workload.precision, workload.shard_optimizer);
  });
  double optimizer = workload.shard_optimizer ? state.optimizer : state.optimizer / double(shard);
  out.constant = {{"parameters of " + module.name, state.parameters / double(shard)},
                  {"gradients of " + module.name, state.gradients / double(shard)},
                  {"optimizer states of " + module.name, optimizer}};
  if (shard > 1) {
    double largest = 0;  // one layer is used while the next one is gathered
    kinds.by_layer([&](const cost::Layer& layer, bool) {
      auto one = cost::state_bytes(layer, parallel, training, workload.precision, workload.shard_optimizer);
      largest = std::max(largest, one.parameters);
      return 0;
    });
    out.constant.push_back({"gathered parameters of " + module.name, 2 * largest});
    auto links = cost::shard_time(layers, placement.replicas * placement.tensor, shard * placement.tensor,
                                  placement.tensor, training, workload.precision, workload.hardware,
                                  module.efficiency);
    bool runs_backward = training.passes_gradient || !training.frozen;
    out.costs.least_forward = links.gather;
    out.costs.least_backward = runs_backward ? links.gather + links.reduce : 0;
    out.sync = links.replicas;
  } else {
    out.sync = cost::gradient_sync(layers, parallel, training, workload.precision, workload.shard_optimizer,
                                   workload.hardware, module.efficiency)
                   .all();
  }
  out.optimizer = cost::optimizer_seconds(layers, parallel, training, workload.precision,
                                          workload.shard_optimizer, workload.hardware, module.efficiency);
  out.flops = cost::flops(module.model, sequences).forward * (module.frozen ? 1 : 3);
  return out;
}

ItemSizes::ItemSizes(const Workload& workload, size_t module, const LayerKinds& kinds, int64_t tensor)
    : workload_(workload), module_(workload.modules[module]), kinds_(kinds), parallel_{.tensor = tensor} {
  mean_ = forward(module_.items.tokens);
}

double ItemSizes::forward(double tokens) const {
  auto sequences = sequences_of(module_, tokens);
  return kinds_
      .sum([&](const cost::Layer& layer, bool) {
        return cost::layer_time(layer, sequences, parallel_, {}, workload_.hardware, module_.efficiency);
      })
      .forward;
}

double ItemSizes::operator()(double tokens) const {
  return forward(tokens) / mean_;
}

double items_of_sample(const ItemDistribution& items) {
  return (1 - items.empty) * items.mean;
}

}  // namespace bigmac
