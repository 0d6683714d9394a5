#include "bigmac/plan/stages.h"

#include <algorithm>

#include "bigmac/schedule/step.h"

namespace bigmac {
namespace {

struct Serving {
  int64_t ranks = 0;
  double times = 1;
};

Serving serving(int64_t gpus, int64_t data) {
  if (gpus == 0) return {};
  return gpus >= data ? Serving{gpus / data, 1} : Serving{1, double(data) / double(gpus)};
}

}  // namespace

StageSums sum_of_layers(const BackboneCosts& costs, int64_t begin, int64_t end) {
  StageSums sums;
  for (auto layer = size_t(begin); layer < size_t(end); ++layer) {
    sums.time += costs.times[layer];
    sums.kept += costs.bytes[layer].kept;
    sums.working = std::max(sums.working, costs.bytes[layer].working);
    sums.state += costs.states[layer];
    sums.sync += costs.sync[layer];
    sums.optimizer += costs.optimizer[layer];
  }
  return sums;
}

std::vector<StageSums> stage_sums(const BackboneCosts& costs, const cost::Split& layers) {
  std::vector<StageSums> stages;
  int64_t begin = 0;
  for (int64_t count : layers) {
    stages.push_back(sum_of_layers(costs, begin, begin + count));
    begin += count;
  }
  return stages;
}

ReplicaRanks::ReplicaRanks(const Configuration& c) : arrangement_(c.arrangement) {
  auto encoder = serving(c.encoder_gpus / c.encoder_tensor, c.parallel.data);
  auto generator = serving(c.generator_gpus / c.generator_tensor, c.parallel.data);
  split = {encoder.ranks, c.parallel.pipeline, generator.ranks};
  encoder_times = encoder.times;
  generator_times = generator.times;
  Step step;
  step.ranks = c.parallel.pipeline;
  step.chunks = c.chunks;
  step.base = c.base;
  for (int64_t s = 0; s < c.stages(); ++s)
    of_stage.push_back(int32_t(split.encoder) + rank_of_stage(step, s));
}

bool ReplicaRanks::holds(Module kind, int64_t rank) const {
  bool encodes = kind == Module::encoder;
  switch (arrangement_) {
    case Arrangement::disttrain:
      return encodes ? rank < split.encoder : rank >= split.encoder + split.backbone;
    case Arrangement::megatron:
      return rank == (encodes ? of_stage.front() : of_stage.back());
    default:
      return true;
  }
}

}  // namespace bigmac
