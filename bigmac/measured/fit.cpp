#include "bigmac/measured/fit.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "bigmac/common/error.h"
#include "bigmac/common/names.h"
#include "bigmac/schedule/check.h"
#include "bigmac/timeline/mean_costs.h"

namespace bigmac {
namespace {

constexpr std::string_view kStatistics[] = {"each", "mean", "median"};

// Of sorted values, between two in proportion to the distance.
double percentile(const std::vector<double>& sorted, double share) {
  double at = share * double(sorted.size() - 1);
  auto below = size_t(at);
  if (below + 1 >= sorted.size()) return sorted.back();
  return sorted[below] + (at - double(below)) * (sorted[below + 1] - sorted[below]);
}

using StageLists = std::map<std::pair<int64_t, Phase>, std::vector<double>>;
using ModuleLists = std::map<std::pair<int32_t, Phase>, std::vector<double>>;

void collect(const MeasuredStep& step, StageLists& stages, ModuleLists& modules) {
  Dependencies dependencies(step.schedule);
  for (size_t r = 0; r < step.timeline.rows.size(); ++r)
    for (const auto& [op, start, end] : step.timeline.rows[r].operators) {
      if (op.module == Module::backbone) {
        stages[{dependencies.stage(int(r), op.chunk), op.phase}].push_back(end - start);
        continue;
      }
      const Share& share = step.schedule.shares.list[op.index];
      modules[{share.module, op.phase}].push_back((end - start) / size_of(step.schedule, share));
    }
}

}  // namespace

std::string_view name(Statistic statistic) {
  return kStatistics[size_t(statistic)];
}

Statistic statistic_from_name(std::string_view text) {
  for (size_t n = 0; n < std::size(kStatistics); ++n)
    if (text == kStatistics[n]) return Statistic(n);
  throw InvalidInput(unknown_name("statistic", text, {std::begin(kStatistics), std::end(kStatistics)}));
}

Spread spread_of(std::vector<double> times) {
  if (times.empty()) return {};
  std::sort(times.begin(), times.end());
  double sum = std::accumulate(times.begin(), times.end(), 0.0);
  return {int64_t(times.size()),
          sum / double(times.size()),
          percentile(times, 0.5),
          percentile(times, 0.05),
          percentile(times, 0.95),
          times.front(),
          times.back()};
}

OperatorTimes operator_times(const std::vector<const MeasuredStep*>& steps) {
  OperatorTimes times;
  if (steps.empty()) return times;
  const Step& first = steps[0]->schedule.step;
  StageLists stages;
  ModuleLists modules;
  for (const auto* measured : steps) {
    const Step& step = measured->schedule.step;
    if (step.ranks != first.ranks || step.chunks != first.chunks ||
        step.modules.size() != first.modules.size())
      throw InvalidInput(concat("[measured] iteration ", measured->name, " has ", shape(step), ", iteration ",
                                steps[0]->name, " ", shape(first), "; take one of them"));
    collect(*measured, stages, modules);
  }
  for (auto& [key, list] : stages)
    times.stages.push_back(
        {key.first, rank_of_stage(first, key.first), key.second, spread_of(std::move(list))});
  for (auto& [key, list] : modules)
    times.modules.push_back({first.modules[size_t(key.first)].name, key.second, spread_of(std::move(list))});
  return times;
}

Costs fit_costs(const MeasuredStep& step, Statistic statistic) {
  auto costs = mean_costs(step.schedule, step.timeline);
  if (statistic != Statistic::median) return costs;
  StageLists stages;
  ModuleLists modules;
  collect(step, stages, modules);
  auto median = [](auto& lists, auto key) {
    auto at = lists.find(key);
    return at == lists.end() ? 0.0 : spread_of(at->second).median;
  };
  for (size_t s = 0; s < costs.forward.size(); ++s) {
    auto stage = int64_t(s);
    costs.forward[s] = median(stages, std::pair(stage, Phase::forward));
    double whole = median(stages, std::pair(stage, Phase::backward));
    double input = median(stages, std::pair(stage, Phase::input));
    double weight = median(stages, std::pair(stage, Phase::weight));
    costs.backward[s] = whole > 0 ? whole : input + weight;
    double share = input + weight > 0 ? weight / (input + weight) : 0.5;
    costs.weight[s] = share * costs.backward[s];
  }
  for (size_t n = 0; n < costs.modules.size(); ++n) {
    auto module = int32_t(n);
    bool generates = step.schedule.step.modules[n].kind == Module::generator;
    costs.modules[n].forward =
        median(modules, std::pair(module, generates ? Phase::generate : Phase::forward));
    costs.modules[n].backward = median(modules, std::pair(module, Phase::backward));
  }
  return costs;
}

std::optional<MemoryFit> fit_memory(const MeasuredStep& step, bool head_apart) {
  constexpr size_t kFewest = 3;
  auto memory = peak_memory(step);
  size_t ranks = memory.size(), used = ranks - (head_apart && ranks > 0 ? 1 : 0);
  if (used < kFewest || !step.schedule.step.modules.empty()) return {};
  MemoryFit fit;
  fit.ranks_used = int64_t(used);
  for (const auto& peak : peak_live(step.schedule)) fit.in_flight.push_back(peak.in_flight);
  double mean_x = 0, mean_y = 0;
  for (size_t r = 0; r < used; ++r) {
    mean_x += double(fit.in_flight[r]) / double(used);
    mean_y += memory[r] / double(used);
  }
  double xx = 0, xy = 0;
  for (size_t r = 0; r < used; ++r) {
    double x = double(fit.in_flight[r]) - mean_x;
    xx += x * x;
    xy += x * (memory[r] - mean_y);
  }
  if (xx == 0) return {};
  fit.per_in_flight = xy / xx;
  fit.constant = mean_y - fit.per_in_flight * mean_x;
  for (size_t r = 0; r < ranks; ++r) {
    fit.fitted.push_back(fit.constant + fit.per_in_flight * double(fit.in_flight[r]));
    if (r < used && memory[r] > 0)
      fit.largest_error = std::max(fit.largest_error, std::abs(fit.fitted[r] / memory[r] - 1));
  }
  return fit;
}

}  // namespace bigmac
