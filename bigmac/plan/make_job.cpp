#include "bigmac/plan/make_job.h"

#include <algorithm>
#include <numeric>

#include "bigmac/plan/stages.h"
#include "bigmac/schedule/base.h"
#include "bigmac/schedule/make.h"

namespace bigmac {
namespace {

Step step_of(const JobParts& parts, const ReplicaRanks& ranks) {
  const auto& c = parts.configuration;
  Step step;
  step.ranks = ranks.count();
  step.chunks = c.chunks;
  step.microbatches = parts.microbatches;
  step.base = c.base;
  step.arrangement = c.arrangement;
  for (size_t n = 0; n < parts.modules.size(); ++n) {
    const auto& declared = parts.workload.modules[n];
    bool encodes = declared.kind == Module::encoder;
    // Gradients pass through a generator, frozen or not.
    NestedModule module{
        declared.name, declared.kind, {}, encodes ? c.warmup_units : 0, !(encodes && declared.frozen)};
    for (int64_t sample = 0; sample < parts.microbatches * c.microbatch; ++sample)
      for (double size : parts.sizes[n]->items[size_t(sample)])
        module.items.push_back({uint32_t(sample / c.microbatch), size});
    step.modules.push_back(std::move(module));
  }
  return step;
}

Costs costs_of(const JobParts& parts, const std::vector<StageSums>& stages, const ReplicaRanks& ranks) {
  Costs costs{.forward = {}, .backward = {}, .weight = {}, .modules = {}};
  for (const auto& stage : stages) {
    costs.forward.push_back(stage.time.forward);
    costs.backward.push_back(stage.time.backward());
    costs.weight.push_back(std::min(stage.time.weight, costs.backward.back()));
  }
  for (size_t n = 0; n < parts.modules.size(); ++n) {
    auto cost = parts.modules[n]->costs;
    double times = ranks.times(parts.workload.modules[n].kind);
    costs.modules.push_back({times * cost.forward, times * cost.backward, times * cost.least_forward,
                             times * cost.least_backward});
  }
  return costs;
}

Links links_of(const JobParts& parts, const ReplicaRanks& ranks) {
  const auto& c = parts.configuration;
  const auto& hardware = parts.workload.hardware;
  double efficiency = parts.workload.backbone.efficiency.links;
  auto link_time = [&](const cost::Link& link) {
    return LinkTime{link.latency, 1 / (link.bandwidth * efficiency)};
  };
  Links links{.exchange = parts.workload.exchange,
              .inside = link_time(hardware.inside),
              .between = link_time(hardware.between),
              .node_of_rank = {},
              .stage_bytes = parts.backbone.boundary,
              .item_bytes = {}};
  for (const auto* module : parts.modules) links.item_bytes.push_back(module->out);
  auto add_ranks = [&](int64_t count, int64_t first_gpu, int64_t stride) {
    for (int64_t r = 0; r < count; ++r)
      links.node_of_rank.push_back(int32_t((first_gpu + r * stride) / hardware.gpus_per_node));
  };
  add_ranks(ranks.split.encoder, 0, c.encoder_tensor);
  add_ranks(ranks.split.backbone, c.encoder_gpus, c.parallel.tensor * c.parallel.data);
  add_ranks(ranks.split.generator, c.encoder_gpus + c.parallel.gpus(), c.generator_tensor);
  return links;
}

Bytes bytes_of(const JobParts& parts, const std::vector<StageSums>& stages, const ReplicaRanks& ranks) {
  Bytes bytes;
  bytes.stage.clear();
  bytes.stage_work.clear();
  for (const auto& stage : stages) {
    bytes.stage.push_back(stage.kept);
    bytes.stage_work.push_back(stage.working);
  }
  bytes.boundary = parts.backbone.boundary;
  for (size_t n = 0; n < parts.modules.size(); ++n) {
    bytes.item.push_back(ranks.times(parts.workload.modules[n].kind) * parts.modules[n]->kept);
    bytes.item_work.push_back(parts.modules[n]->working);
    bytes.item_out.push_back(parts.modules[n]->out);
  }
  const auto& name = parts.workload.backbone.name;
  for (int64_t rank = 0; rank < ranks.count(); ++rank) {
    cost::StateBytes state;
    for (size_t s = 0; s < stages.size(); ++s)
      if (ranks.of_stage[s] == rank) state += stages[s].state;
    std::vector<Holder> constant{{"reserved", parts.workload.reserved},
                                 {"parameters of " + name, state.parameters},
                                 {"gradients of " + name, state.gradients},
                                 {"optimizer states of " + name, state.optimizer}};
    for (size_t n = 0; n < parts.modules.size(); ++n)
      if (ranks.holds(parts.workload.modules[n].kind, rank))
        constant.insert(constant.end(), parts.modules[n]->constant.begin(), parts.modules[n]->constant.end());
    std::erase_if(constant, [](const Holder& holder) { return holder.bytes == 0; });
    bytes.constant.push_back(std::move(constant));
  }
  return bytes;
}

// The end of a step, on the rank that takes longest over it.
struct StepEnd {
  double sync = 0;
  double optimizer = 0;
  double all() const { return sync + optimizer; }
};

StepEnd longest_end(const JobParts& parts, const std::vector<StageSums>& stages, const ReplicaRanks& ranks) {
  StepEnd longest;
  for (int64_t rank = 0; rank < ranks.count(); ++rank) {
    StepEnd end;
    for (size_t s = 0; s < stages.size(); ++s) {
      if (ranks.of_stage[s] != rank) continue;
      end.sync += stages[s].sync;
      end.optimizer += stages[s].optimizer;
    }
    for (size_t n = 0; n < parts.modules.size(); ++n) {
      if (!ranks.holds(parts.workload.modules[n].kind, rank)) continue;
      end.sync += parts.modules[n]->sync;
      end.optimizer += parts.modules[n]->optimizer;
    }
    end.sync *= 1 - parts.workload.overlap;
    if (end.all() > longest.all()) longest = end;
  }
  return longest;
}

}  // namespace

double JobParts::size_of(size_t module) const {
  return sizes[module]->total[size_t(microbatches * configuration.microbatch)];
}

void SampleSizes::add_sample(std::vector<double> sizes) {
  total.push_back(total.back() + std::accumulate(sizes.begin(), sizes.end(), 0.0));
  items.push_back(std::move(sizes));
}

Job make_job(const JobParts& parts) {
  ReplicaRanks ranks(parts.configuration);
  auto stages = stage_sums(parts.backbone, parts.layers);
  auto end = longest_end(parts, stages, ranks);
  Job job{.step = step_of(parts, ranks),
          .split = ranks.split,
          .costs = costs_of(parts, stages, ranks),
          .links = links_of(parts, ranks),
          .bytes = bytes_of(parts, stages, ranks),
          .layers = parts.layers,
          .sync = end.sync,
          .optimizer = end.optimizer,
          .flops = double(parts.microbatches) * parts.backbone.flops};
  for (size_t n = 0; n < parts.modules.size(); ++n) job.flops += parts.size_of(n) * parts.modules[n]->flops;
  return job;
}

Schedule make_schedule(const Job& job, int64_t most_passes) {
  if (job.step.arrangement == Arrangement::disttrain) return disttrain_schedule(job.step, job.split);
  return make_schedule(job.step, job.costs, most_passes);
}

std::vector<double> layer_seconds(const BackboneCosts& costs) {
  std::vector<double> seconds;
  for (const auto& layer : costs.times) seconds.push_back(layer.forward + layer.backward());
  return seconds;
}

}  // namespace bigmac
