#include "bigmac/analysis/split.h"

#include <algorithm>
#include <numeric>

#include "bigmac/analysis/step_model.h"

namespace bigmac {
namespace {

struct StageCost {
  double fixed = 0, layer = 0;
  double with(int64_t layers) const { return fixed + layer * double(layers); }
};

double typical_layer(const Layout& layout, const std::vector<double>& per_layer) {
  std::vector<double> inner, all;
  for (size_t s = 0; s < per_layer.size(); ++s) {
    if (per_layer[s] <= 0) continue;
    all.push_back(per_layer[s]);
    if (!layout.stages[s].embedding && !layout.stages[s].loss) inner.push_back(per_layer[s]);
  }
  if (!inner.empty()) return median_of(std::move(inner));
  return all.empty() ? 0 : *std::min_element(all.begin(), all.end());
}

std::vector<StageCost> costs_of(const Layout& layout, const std::vector<double>& times) {
  auto per_layer = layer_times(layout, times);
  double typical = typical_layer(layout, per_layer);
  std::vector<StageCost> costs;
  for (size_t s = 0; s < times.size(); ++s) {
    const auto& stage = layout.stages[s];
    bool end = stage.embedding || stage.loss;
    double layer = per_layer[s] <= 0 ? typical : end ? std::min(per_layer[s], typical) : per_layer[s];
    costs.push_back({std::max(0.0, times[s] - layer * double(stage.layers)), layer});
  }
  return costs;
}

}  // namespace

std::vector<double> layer_times(const Layout& layout, const std::vector<double>& times) {
  std::vector<double> list;
  for (size_t s = 0; s < times.size(); ++s) {
    auto held = double(layout.stages[s].layers + layout.stages[s].mtp);
    list.push_back(held > 0 ? times[s] / held : 0);
  }
  return list;
}

LayerSplit balanced_split(const Layout& layout, const std::vector<double>& times) {
  auto costs = costs_of(layout, times);
  LayerSplit split{layout, {}};
  int64_t left = layout.layers(), each = left >= int64_t(times.size()) ? 1 : 0;
  auto& stages = split.layout.stages;
  for (auto& stage : stages) {
    stage.layers = each;
    left -= each;
  }
  for (; left > 0; --left) {
    size_t best = 0;
    for (size_t s = 1; s < stages.size(); ++s)
      if (costs[s].with(stages[s].layers + 1) <= costs[best].with(stages[best].layers + 1)) best = s;
    ++stages[best].layers;
  }
  for (size_t s = 0; s < times.size(); ++s)
    split.scale.push_back(times[s] > 0 ? costs[s].with(stages[s].layers) / times[s] : 1);
  return split;
}

Costs evened(Costs costs) {
  for (auto* times : {&costs.forward, &costs.backward, &costs.weight}) {
    double sum = std::accumulate(times->begin(), times->end(), 0.0);
    times->assign(times->size(), times->empty() ? 0 : sum / double(times->size()));
  }
  return costs;
}

Costs cut_in_parts(Costs costs, int64_t parts) {
  for (auto* times : {&costs.forward, &costs.backward, &costs.weight}) {
    std::vector<double> list;
    for (double time : *times) list.insert(list.end(), size_t(parts), time / double(parts));
    *times = std::move(list);
  }
  return costs;
}

}  // namespace bigmac
