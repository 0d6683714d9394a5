#include "bigmac/analysis/kinds.h"

#include <algorithm>

#include "bigmac/schedule/dependencies.h"

namespace bigmac {
namespace {

constexpr int32_t kPhases = 5;
constexpr size_t kFewestOperators = 2;  // of a rank, of a module: fewer say nothing of the rank

int32_t kind_of(int64_t stages, int32_t stage, int32_t module, Phase phase) {
  return int32_t(stage >= 0 ? stage : stages + module) * kPhases + int32_t(phase);
}

double of_others(const std::vector<double>& values, const std::vector<int32_t>& ranks, int rank) {
  std::vector<double> others;
  for (size_t n = 0; n < values.size(); ++n)
    if (ranks[n] != rank) others.push_back(values[n]);
  return median_of(std::move(others));
}

// A module's rates of one kind, rank by rank.
void add_module_ratios(const Schedule& schedule, const StepModel& model, const Kinds& kinds,
                       std::vector<RankRatios>& ratios) {
  int64_t stages = schedule.step.stages();
  size_t first = size_t(stages * kPhases), count = kinds.median.size() - first;
  std::vector<std::vector<std::vector<double>>> rates(count);
  for (auto& of_kind : rates) of_kind.resize(size_t(model.ranks));
  for (size_t i = 0; i < model.count(); ++i)
    if (kinds.stage[i] < 0 && kinds.size[i] > 0)
      rates[size_t(kinds.of[i]) - first][size_t(model.rank[i])].push_back(model.duration[i] / kinds.size[i]);
  for (const auto& of_kind : rates)
    for (size_t rank = 0; rank < of_kind.size(); ++rank) {
      if (of_kind[rank].size() < kFewestOperators) continue;
      std::vector<double> others;
      for (size_t other = 0; other < of_kind.size(); ++other)
        if (other != rank) others.insert(others.end(), of_kind[other].begin(), of_kind[other].end());
      double median = median_of(std::move(others));
      if (median > 0) ratios[rank].modules.push_back(median_of(of_kind[rank]) / median);
    }
}

}  // namespace

double RankRatios::least() const {
  double value = stages.empty() && modules.empty() ? 1 : 1e300;
  for (double ratio : stages) value = std::min(value, ratio);
  for (double ratio : modules) value = std::min(value, ratio);
  return value;
}

double RankRatios::most() const {
  double value = stages.empty() && modules.empty() ? 1 : 0;
  for (double ratio : stages) value = std::max(value, ratio);
  for (double ratio : modules) value = std::max(value, ratio);
  return value;
}

Kinds kinds_of(const Schedule& schedule, const StepModel& model) {
  Dependencies dependencies(schedule);
  int64_t stages = schedule.step.stages();
  Kinds kinds;
  std::vector<std::vector<double>> rates(size_t(kPhases) * (size_t(stages) + schedule.step.modules.size()));
  for (size_t i = 0; i < model.count(); ++i) {
    const Operator& op = model.slices[i].op;
    bool backbone = op.module == Module::backbone;
    const Share* share = backbone ? nullptr : &schedule.shares.list[op.index];
    kinds.stage.push_back(backbone ? int32_t(dependencies.stage(model.rank[i], op.chunk)) : -1);
    kinds.size.push_back(backbone ? 1 : size_of(schedule, *share));
    kinds.of.push_back(kind_of(stages, kinds.stage.back(), backbone ? 0 : share->module, op.phase));
    if (kinds.size.back() > 0)
      rates[size_t(kinds.of.back())].push_back(model.duration[i] / kinds.size.back());
  }
  for (auto& list : rates) kinds.median.push_back(median_of(std::move(list)));
  for (int64_t s = 0; s < stages; ++s) kinds.rank_of_stage.push_back(dependencies.rank_of(s));
  return kinds;
}

std::vector<RankRatios> rank_ratios(const Schedule& schedule, const StepModel& model, const Kinds& kinds) {
  std::vector<double> times(kinds.rank_of_stage.size(), 0);
  for (size_t s = 0; s < times.size(); ++s)
    for (size_t phase = 0; phase < kPhases; ++phase) times[s] += kinds.median[s * kPhases + phase];
  std::vector<RankRatios> ratios(size_t(model.ranks));
  for (int rank = 0; rank < model.ranks; ++rank) {
    double others = of_others(times, kinds.rank_of_stage, rank);
    for (size_t s = 0; others > 0 && s < times.size(); ++s)
      if (kinds.rank_of_stage[s] == rank) ratios[size_t(rank)].stages.push_back(times[s] / others);
  }
  add_module_ratios(schedule, model, kinds, ratios);
  return ratios;
}

std::vector<double> stage_times(const StepModel& model, const Kinds& kinds, int64_t microbatches) {
  std::vector<double> times(kinds.rank_of_stage.size(), 0);
  for (size_t i = 0; i < model.count(); ++i)
    if (kinds.stage[i] >= 0) times[size_t(kinds.stage[i])] += model.duration[i] / double(microbatches);
  return times;
}

}  // namespace bigmac
