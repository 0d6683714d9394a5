#include "bigmac/schedule/costs.h"

#include <algorithm>
#include <cmath>

#include "bigmac/common/error.h"

namespace bigmac {
namespace {

double checked(const std::string& what, double value) {
  if (!std::isfinite(value) || value < 0)
    throw InvalidInput(concat("[costs] ", what, " must be a finite number of at least 0, got ", value));
  return value;
}

std::vector<double> by_stage(const char* what, const std::vector<double>& values, int64_t stages) {
  if (values.size() != 1 && int64_t(values.size()) != stages)
    throw InvalidInput(concat("[costs] ", what, " needs 1 value or one for each of ", stages, " stages, got ",
                              values.size()));
  for (double value : values) checked(what, value);
  return values.size() == 1 ? std::vector<double>(stages, values[0]) : values;
}

}  // namespace

ModuleCosts costs_of_module(const Step& step, const Costs& costs, size_t n) {
  auto cost = costs.of_module(n);
  if (!step.modules[n].trained) cost.backward = cost.least_backward = 0;
  return cost;
}

Durations::Durations(const Step& step, const Shares& shares, const Costs& costs)
    : chunks_(step.chunks), latency_(checked("latency", costs.latency)) {
  int64_t stages = step.stages();
  auto forward = by_stage("backbone forward", costs.forward, stages);
  auto backward = by_stage("backbone backward", costs.backward, stages);
  auto weight =
      by_stage("backbone weight", costs.weight.empty() ? std::vector<double>{0} : costs.weight, stages);
  Dependencies dependencies(step, {});
  for (auto& list : backbone_) list.resize(size_t(step.ranks * step.chunks));
  for (int64_t s = 0; s < stages; ++s) {
    if (costs.weight.empty()) weight[s] = backward[s] / 2;
    if (weight[s] > backward[s])
      throw InvalidInput(concat("[costs] the weight part of stage ", s, "'s backward is ", weight[s],
                                ", more than the whole of ", backward[s]));
    size_t at = size_t(dependencies.rank_of(s) * chunks_ + dependencies.chunk_of(s));
    backbone_[size_t(Phase::forward)][at] = forward[s];
    backbone_[size_t(Phase::backward)][at] = backward[s];
    backbone_[size_t(Phase::input)][at] = backward[s] - weight[s];
    backbone_[size_t(Phase::weight)][at] = weight[s];
    longest_backbone_ = std::max({longest_backbone_, forward[s], backward[s]});
  }
  size_t known = costs.modules.size();
  if (known > 1 && known != step.modules.size())
    throw InvalidInput(
        concat("[costs] has ", known, " encoders and generators, the step has ", step.modules.size()));
  for (size_t n = 0; n < step.modules.size(); ++n) {
    auto name = step.modules[n].name;
    auto cost = costs.of_module(n);
    checked(name + " forward", cost.forward);
    checked(name + " backward", cost.backward);
    checked(name + " least forward", cost.least_forward);
    checked(name + " least backward", cost.least_backward);
  }
  for (const auto& share : shares.list) {
    const auto& module = step.modules[share.module];
    auto cost = costs_of_module(step, costs, size_t(share.module));
    double size = 0;
    for (uint32_t item : shares.items_of(share)) size += module.items[item].size;
    double first = std::max(size * cost.forward, cost.least_forward);
    double second = std::max(size * cost.backward, cost.least_backward);
    share_[0].push_back(module.kind == Module::generator ? first + second : first);
    share_[1].push_back(second);
  }
}

}  // namespace bigmac
