#include "bigmac/plan/bounds.h"

#include <algorithm>

#include "bigmac/plan/stages.h"
#include "bigmac/schedule/base.h"

namespace bigmac {
namespace {

// Bounds are sums in another order than what they bound.
constexpr double kRounding = 1e-9;

// Seconds of the items of all of a replica's samples, on one rank.
double nested_seconds(const JobParts& parts, const ReplicaRanks& ranks, Module kind) {
  double seconds = 0;
  for (size_t n = 0; n < parts.modules.size(); ++n) {
    if (parts.workload.modules[n].kind != kind) continue;
    const auto& cost = parts.modules[n]->costs;
    seconds += ranks.times(kind) * parts.size_of(n) * (cost.forward + cost.backward);
  }
  return seconds;
}

bool splits_backward(const Configuration& c) {
  Step step;
  step.base = c.base;
  return step.splits_backward();
}

// Of a microbatch's time in a stage, what the stages behind it wait for: the forward on its way there and,
// where nothing may be put off, the backward on its way back.
double on_the_way(const cost::LayerTime& time, bool puts_off) {
  return time.forward + (puts_off ? 0 : time.backward());
}

double end_of(const JobParts& parts, double sync, double optimizer) {
  return sync * (1 - parts.workload.overlap) + optimizer;
}

// The least limit at which the stages, one after the other, take all of the layers, each as many as it can:
// take(stage, begin, limit) is the layer behind its last. Not above it; found to 1e-6 of `enough`.
template <class Take>
double least_limit(double enough, int64_t stages, int64_t layers, Take&& take) {
  double too_little = 0;
  for (int n = 0; n < 20; ++n) {
    double limit = (too_little + enough) / 2;
    int64_t begin = 0;
    for (int64_t stage = 0; stage < stages && begin < layers; ++stage) begin = take(stage, begin, limit);
    (begin < layers ? too_little : enough) = limit;
  }
  return too_little;
}

// The same for a limit on sums over a stage's layers of amount(stage, layer).
template <class Amount>
double least_sum(double enough, int64_t stages, int64_t layers, Amount&& amount) {
  return least_limit(enough, stages, layers, [&](int64_t stage, int64_t begin, double limit) {
    double sum = 0;
    while (begin < layers && (sum += amount(stage, begin)) <= limit) ++begin;
    return begin;
  });
}

}  // namespace

bool can_shift_layers(const Configuration& c) {
  return c.layers.empty() && c.chunks == 1 && c.parallel.pipeline > 1 &&
         c.arrangement != Arrangement::megatron;
}

InFlight in_flight_of(const Step& step) {
  InFlight most(size_t(step.ranks), std::vector<int32_t>(size_t(step.chunks), 0));
  bool generates = step.has(Module::generator);
  if (step.arrangement == Arrangement::disttrain) {  // the generators are one more stage
    for (int64_t rank = 0; rank < step.ranks; ++rank)
      most[size_t(rank)][0] = int32_t(std::min(step.microbatches, step.ranks - rank + (generates ? 1 : 0)));
    return most;
  }
  Turn turn = !generates                                  ? Turn::at_once
              : step.arrangement == Arrangement::optimus  ? Turn::behind_all_forwards
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

RankBounds rank_bounds(const JobParts& parts, const InFlight& in_flight) {
  ReplicaRanks ranks(parts.configuration);
  auto stages = stage_sums(parts.backbone, parts.layers);
  auto count = size_t(ranks.split.backbone);
  RankBounds bounds{0, std::vector<double>(count, 0), std::vector<double>(count, 0)};
  std::vector<double> work(count, 0);
  std::vector<size_t> chunk(count, 0);
  for (size_t s = 0; s < stages.size(); ++s) {
    const auto& stage = stages[s];
    auto rank = size_t(ranks.of_stage[s] - ranks.split.encoder);
    work[rank] += double(parts.microbatches) * (stage.time.forward + stage.time.backward());
    bounds.end[rank] += end_of(parts, stage.sync, stage.optimizer);
    bounds.bytes[rank] += stage.state.all() + stage.kept * in_flight[rank][chunk[rank]++];
  }
  if (parts.configuration.arrangement == Arrangement::megatron) {
    work[size_t(ranks.of_stage.front())] += nested_seconds(parts, ranks, Module::encoder);
    work[size_t(ranks.of_stage.back())] += nested_seconds(parts, ranks, Module::generator);
  }
  bool puts_off = splits_backward(parts.configuration);
  double before = 0;
  for (size_t r = 0; r < count; ++r) {
    bounds.seconds = std::max(bounds.seconds, before + work[r]);
    before += on_the_way(stages[r].time, puts_off);
  }
  return bounds;
}

RankBounds any_layers_bounds(const JobParts& parts, const InFlight& in_flight) {
  const auto& costs = parts.backbone;
  auto layers = int64_t(costs.times.size()), stages = parts.configuration.stages();
  auto microbatches = double(parts.microbatches);
  auto seconds = [&](int64_t layer) {
    const auto& time = costs.times[size_t(layer)];
    return time.forward + time.backward();
  };
  auto end = [&](int64_t, int64_t layer) {
    return end_of(parts, costs.sync[size_t(layer)], costs.optimizer[size_t(layer)]);
  };
  auto bytes = [&](int64_t stage, int64_t layer) {
    return costs.states[size_t(layer)].all() + costs.bytes[size_t(layer)].kept * in_flight[size_t(stage)][0];
  };
  double all_seconds = 0, all_end = 0, all_bytes = 0;
  for (int64_t layer = 0; layer < layers; ++layer) {
    all_seconds += seconds(layer);
    all_end += end(0, layer);
    double most = 0;
    for (int64_t stage = 0; stage < stages; ++stage) most = std::max(most, bytes(stage, layer));
    all_bytes += most;
  }
  bool puts_off = splits_backward(parts.configuration);
  std::vector<double> way{0};
  for (const auto& time : costs.times) way.push_back(way.back() + on_the_way(time, puts_off));
  double longest = least_limit((microbatches + 1) * all_seconds, stages, layers,
                               [&](int64_t, int64_t begin, double limit) {
                                 double work = way[size_t(begin)];
                                 while (begin < layers && (work += microbatches * seconds(begin)) <= limit)
                                   ++begin;
                                 return begin;
                               });
  return {longest, std::vector<double>(size_t(stages), least_sum(all_end, stages, layers, end)),
          std::vector<double>(size_t(stages), least_sum(all_bytes, stages, layers, bytes))};
}

LeastOutcome least_outcome(const JobParts& parts, const RankBounds& bounds) {
  ReplicaRanks ranks(parts.configuration);
  const auto& split = ranks.split;
  double backbone = 0;
  for (const auto& time : parts.backbone.times)
    backbone += double(parts.microbatches) * (time.forward + time.backward());
  double encoder = nested_seconds(parts, ranks, Module::encoder);
  double generator = nested_seconds(parts, ranks, Module::generator);
  double pipeline = bounds.seconds;
  if (parts.configuration.arrangement != Arrangement::disttrain)
    pipeline = std::max(pipeline, (backbone + encoder + generator) / double(split.backbone));
  if (split.encoder > 0) pipeline = std::max(pipeline, encoder / double(split.encoder));
  if (split.generator > 0) pipeline = std::max(pipeline, generator / double(split.generator));

  double end = 0, memory = 0;
  for (int64_t rank = 0; rank < ranks.count(); ++rank) {
    int64_t own = rank - split.encoder;
    bool has_stages = own >= 0 && own < split.backbone;
    double seconds = has_stages ? bounds.end[size_t(own)] : 0;
    double bytes = parts.workload.reserved + (has_stages ? bounds.bytes[size_t(own)] : 0);
    for (size_t n = 0; n < parts.modules.size(); ++n) {
      if (!ranks.holds(parts.workload.modules[n].kind, rank)) continue;
      const auto& work = *parts.modules[n];
      seconds += end_of(parts, work.sync, work.optimizer);
      for (const auto& holder : work.constant) bytes += holder.bytes;
    }
    end = std::max(end, seconds);
    memory = std::max(memory, bytes);
  }
  return {(pipeline + end) * (1 - kRounding), memory * (1 - kRounding)};
}

}  // namespace bigmac
