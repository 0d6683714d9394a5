#include "bigmac/system/cut.h"

#include <algorithm>
#include <numeric>

#include "bigmac/common/error.h"
#include "bigmac/cost/split.h"
#include "bigmac/formats/layout.h"

namespace bigmac {
namespace {

std::vector<double> costs_of(const BackboneDeclaration& backbone, const CutOptions& options) {
  auto parts = backbone.all();
  if (!options.costs.empty()) {
    if (options.costs.size() != parts.size())
      throw InvalidInput(concat("[cut] ", options.costs.size(), " costs for the ", parts.size(),
                                " parts of '", backbone.name, "': the embedding, ", parts.size() - 2,
                                " layers and the head"));
    return options.costs;
  }
  std::vector<double> costs;
  for (const auto* part : parts) costs.push_back(part->cost);
  return costs;
}

std::vector<int64_t> parts_of_stages(const BackboneDeclaration& backbone, int64_t stages,
                                     const CutOptions& options) {
  auto layers = int64_t(backbone.layers.size());
  if (!options.split.empty() && !options.layout.empty())
    throw InvalidInput("[cut] both a split and a layout are given; leave one out");
  if (!options.layout.empty()) {
    auto layout = parse_layout(options.layout);
    auto split = cost::split_of(layout, layers);
    if (int64_t(split.size()) != stages)
      throw InvalidInput(concat("[cut] layout '", options.layout, "' has ", split.size(),
                                " stages, the pipeline has ", stages));
    return split;
  }
  if (!options.split.empty()) {
    cost::check_split(options.split, layers, stages);
    auto split = options.split;
    ++split.front();
    ++split.back();
    return split;
  }
  return cost::balanced_split({.times = costs_of(backbone, options)}, stages);
}

}  // namespace

int64_t Cut::stage_of(int64_t part) const {
  return std::upper_bound(first.begin(), first.end(), part) - first.begin() - 1;
}

Cut make_cut(const BackboneDeclaration& backbone, int64_t stages, const CutOptions& options) {
  auto parts = int64_t(backbone.all().size());
  if (stages > parts)
    throw InvalidInput(concat("[cut] ", stages, " stages (P * V) for the ", parts, " parts of '",
                              backbone.name, "' (the embedding, ", parts - 2,
                              " layers and the head); take at most ", parts));
  Cut cut{{0}};
  for (int64_t held : parts_of_stages(backbone, stages, options))
    cut.first.push_back(cut.first.back() + held);
  return cut;
}

std::vector<double> stage_costs(const BackboneDeclaration& backbone, const Cut& cut,
                                const CutOptions& options) {
  auto costs = costs_of(backbone, options);
  double mean = std::accumulate(costs.begin(), costs.end(), 0.0) / double(cut.stages());
  std::vector<double> stages;
  for (int64_t s = 0; s < cut.stages(); ++s) {
    double sum = 0;
    for (int64_t part = cut.first[size_t(s)]; part < cut.first[size_t(s) + 1]; ++part)
      sum += costs[size_t(part)];
    stages.push_back(mean > 0 ? sum / mean : 1);
  }
  return stages;
}

}  // namespace bigmac
