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
    NestedModule module{
        declared.name, declared.kind, {}, declared.kind == Module::encoder ? c.warmup_units : 0};
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
  add_ranks(ranks.split.encoder, 0, 1);
  add_ranks(ranks.split.backbone, c.encoder_gpus, c.parallel.tensor * c.parallel.data);
  add_ranks(ranks.split.generator, c.encoder_gpus + c.parallel.gpus(), 1);
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

StepEnd end_of(const JobParts& parts, const std::vector<StageSums>& stages, const ReplicaRanks& ranks) {
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

int64_t samples_of(const JobParts& parts) {
  return parts.microbatches * parts.configuration.microbatch;
}

// Seconds of the items of all of a replica's samples, on one rank.
double nested_seconds(const JobParts& parts, const ReplicaRanks& ranks, Module kind) {
  double seconds = 0;
  for (size_t n = 0; n < parts.modules.size(); ++n) {
    if (parts.workload.modules[n].kind != kind) continue;
    const auto& cost = parts.modules[n]->costs;
    seconds += ranks.times(kind) * parts.sizes[n]->total[size_t(samples_of(parts))] * (cost.forward + cost.backward);
  }
  return seconds;
}

// A rank's own backbone work, behind the first microbatch's way to it and, where nothing may be put off, before the
// last one's way back.
double longest_rank(const JobParts& parts, const std::vector<StageSums>& stages, const ReplicaRanks& ranks) {
  double longest = 0, before = 0;
  std::vector<double> work(size_t(ranks.count()), 0);
  auto microbatches = double(parts.microbatches);
  for (size_t s = 0; s < stages.size(); ++s)
    work[size_t(ranks.of_stage[s])] += microbatches * (stages[s].time.forward + stages[s].time.backward());
  if (parts.configuration.arrangement == Arrangement::megatron) {
    work[size_t(ranks.of_stage.front())] += nested_seconds(parts, ranks, Module::encoder);
    work[size_t(ranks.of_stage.back())] += nested_seconds(parts, ranks, Module::generator);
  }
  Step step;
  step.base = parts.configuration.base;
  bool puts_off = step.splits_backward();
  for (int64_t r = 0; r < ranks.split.backbone && r < int64_t(stages.size()); ++r) {
    longest = std::max(longest, before + work[size_t(ranks.of_stage[size_t(r)])]);
    before += stages[size_t(r)].time.forward + (puts_off ? 0 : stages[size_t(r)].time.backward());
  }
  return longest;
}

}  // namespace

void SampleSizes::add_sample(std::vector<double> sizes) {
  total.push_back(total.back() + std::accumulate(sizes.begin(), sizes.end(), 0.0));
  items.push_back(std::move(sizes));
}

Job make_job(const JobParts& parts) {
  ReplicaRanks ranks(parts.configuration);
  auto stages = stage_sums(parts.backbone, parts.layers);
  auto end = end_of(parts, stages, ranks);
  Job job{.step = step_of(parts, ranks),
          .split = ranks.split,
          .costs = costs_of(parts, stages, ranks),
          .links = links_of(parts, ranks),
          .bytes = bytes_of(parts, stages, ranks),
          .layers = parts.layers,
          .sync = end.sync,
          .optimizer = end.optimizer,
          .flops = double(parts.microbatches) * parts.backbone.flops};
  for (size_t n = 0; n < parts.modules.size(); ++n)
    job.flops += parts.sizes[n]->total[size_t(samples_of(parts))] * parts.modules[n]->flops;
  return job;
}

Schedule make_schedule(const Job& job, int64_t most_passes) {
  if (job.step.arrangement == Arrangement::disttrain) return disttrain_schedule(job.step, job.split);
  return make_schedule(job.step, job.costs, most_passes);
}

InFlight in_flight_of(const Step& step) {
  InFlight most(size_t(step.ranks), std::vector<int32_t>(size_t(step.chunks), 0));
  bool generates = step.has(Module::generator);
  if (step.arrangement == Arrangement::disttrain) {  // the generators are one more stage
    for (int64_t rank = 0; rank < step.ranks; ++rank)
      most[size_t(rank)][0] = int32_t(std::min(step.microbatches, step.ranks - rank + (generates ? 1 : 0)));
    return most;
  }
  Turn turn = !generates ? Turn::at_once
              : step.arrangement == Arrangement::optimus ? Turn::behind_all_forwards
              : step.arrangement == Arrangement::megatron ? Turn::at_once
                                                          : Turn::behind_generator;
  Schedule table = base_table(step, turn);
  for (int rank = 0; rank < table.ranks(); ++rank) {
    std::vector<int32_t> live(size_t(step.chunks), 0);
    int64_t sum = 0, largest = 0;
    for (const auto& op : table.row(rank)) {
      int change = op.phase == Phase::forward ? 1 : frees_activations(op.phase) ? -1 : 0;
      live[op.chunk] += change;
      sum += change;
      if (sum <= largest) continue;
      largest = sum;
      most[size_t(rank)] = live;
    }
  }
  return most;
}

bool can_shift_layers(const Configuration& c) {
  return c.layers.empty() && c.chunks == 1 && c.arrangement != Arrangement::megatron;
}

namespace {

double least_seconds(const JobParts& parts, const std::vector<StageSums>& stages, const ReplicaRanks& ranks) {
  double backbone = 0;
  for (const auto& stage : stages)
    backbone += double(parts.microbatches) * (stage.time.forward + stage.time.backward());
  double encoder = nested_seconds(parts, ranks, Module::encoder);
  double generator = nested_seconds(parts, ranks, Module::generator);
  double longest = longest_rank(parts, stages, ranks);
  if (parts.configuration.arrangement != Arrangement::disttrain)
    return std::max(longest, (backbone + encoder + generator) / double(ranks.split.backbone));
  if (ranks.split.encoder > 0) longest = std::max(longest, encoder / double(ranks.split.encoder));
  if (ranks.split.generator > 0) longest = std::max(longest, generator / double(ranks.split.generator));
  return longest;
}

// States and microbatches in flight of the fullest rank. Where these do not fit, but layers may be dealt out anew, what
// the mean rank holds of states and one microbatch.
double least_bytes(const JobParts& parts, const std::vector<StageSums>& stages, const ReplicaRanks& ranks,
                   const InFlight& in_flight) {
  std::vector<double> held(size_t(ranks.count()), 0), modules(held.size(), 0);
  std::vector<size_t> chunk(held.size(), 0);
  double sum = 0, fullest = 0, least = 0;
  for (size_t s = 0; s < stages.size(); ++s) {
    auto rank = size_t(ranks.of_stage[s]);
    auto live = in_flight[rank - size_t(ranks.split.encoder)][chunk[rank]++];
    held[rank] += stages[s].state.all() + stages[s].kept * live;
    sum += stages[s].state.all() + stages[s].kept;
  }
  for (size_t rank = 0; rank < held.size(); ++rank) {
    double others = parts.workload.reserved;
    for (size_t n = 0; n < parts.modules.size(); ++n)
      if (ranks.holds(parts.workload.modules[n].kind, int64_t(rank)))
        for (const auto& holder : parts.modules[n]->constant) others += holder.bytes;
    fullest = std::max(fullest, others + held[rank]);
    least = std::max(least, others + (chunk[rank] > 0 ? sum / double(ranks.split.backbone) : 0));
  }
  return fullest > parts.workload.memory && can_shift_layers(parts.configuration) ? least : fullest;
}

}  // namespace

LeastOutcome least_outcome(const JobParts& parts, const InFlight& in_flight) {
  ReplicaRanks ranks(parts.configuration);
  auto stages = stage_sums(parts.backbone, parts.layers);
  return {least_seconds(parts, stages, ranks) + end_of(parts, stages, ranks).all(),
          least_bytes(parts, stages, ranks, in_flight)};
}

std::vector<double> layer_seconds(const BackboneCosts& costs) {
  std::vector<double> seconds;
  for (const auto& layer : costs.times) seconds.push_back(layer.forward + layer.backward());
  return seconds;
}

}  // namespace bigmac
