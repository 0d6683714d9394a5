#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "bigmac/common/error.h"
#include "bigmac/controls/controls.h"

namespace bigmac {
namespace {

// Without the last digits, in which a sum of parts differs from what it was parted from.
double rounded(double value) {
  return std::stod(fmt::format("{:.12g}", value));
}

double mean(const std::vector<double>& values) {
  if (values.empty()) return 0;
  return rounded(std::accumulate(values.begin(), values.end(), 0.0) / double(values.size()));
}

bool even(const std::vector<double>& values) {
  return std::all_of(values.begin(), values.end(), [&](double value) { return value == values.front(); });
}

// Whether every microbatch has the same number of items, all of one size.
bool even(const NestedModule& module, int64_t microbatches) {
  const auto& items = module.items;
  if (items.empty() || int64_t(items.size()) % microbatches != 0) return false;
  size_t each = items.size() / size_t(microbatches);
  for (size_t i = 0; i < items.size(); ++i)
    if (items[i].microbatch != i / each || items[i].size != items.front().size) return false;
  return true;
}

// Of all modules of one kind, what a mean microbatch takes.
ControlledModule gathered(const Step& step, const Costs& costs, Module kind,
                          std::vector<std::string>& left_out) {
  ControlledModule sum;
  size_t items = 0, modules = 0;
  bool all_even = true, frozen = false;
  for (size_t n = 0; n < step.modules.size(); ++n) {
    const auto& module = step.modules[n];
    if (module.kind != kind) continue;
    ++modules;
    double size = 0;
    for (const auto& item : module.items) size += item.size;
    auto times = costs_of_module(step, costs, n);
    sum.forward += times.forward * size / double(step.microbatches);
    sum.backward += times.backward * size / double(step.microbatches);
    items += module.items.size();
    all_even &= even(module, step.microbatches);
    frozen |= !module.trained;
  }
  sum.forward = rounded(sum.forward);
  sum.backward = rounded(sum.backward);
  sum.items = std::max<int64_t>(1, std::llround(double(items) / double(step.microbatches)));
  if (modules > 1)
    left_out.push_back(concat("its ", modules, " ", name(kind), "s are one here, with their times added"));
  if (!all_even)
    left_out.push_back(
        concat("its uneven ", name(kind), " items are even here, ", sum.items, " a microbatch"));
  if (frozen) left_out.emplace_back("its frozen encoder has a backward here, which takes no time");
  return sum;
}

}  // namespace

NearestControls nearest_controls(const Step& step, const Costs& costs) {
  NearestControls nearest;
  auto& [controls, left_out] = nearest;
  controls.ranks = step.ranks;
  controls.chunks = std::max<int64_t>(1, step.chunks);
  controls.microbatches = step.microbatches;
  controls.arrangement = step.arrangement;
  auto usual = controls.chunks == 1 ? Base::one_f_one_b : Base::interleaved;
  if (step.base == Base::custom)
    left_out.emplace_back("its table was made elsewhere; here is the usual order of the same P, V and M");
  else if (step.base != usual)
    controls.base = step.base;
  controls.group = step.group == step.ranks ? 0 : step.group;
  controls.generator_unit = step.generator_unit;
  controls.forward = mean(costs.forward);
  controls.backward = mean(costs.backward);
  if (!costs.weight.empty()) controls.weight = mean(costs.weight);
  controls.latency = costs.latency;
  if (!even(costs.forward) || !even(costs.backward) || !even(costs.weight))
    left_out.emplace_back("its stages take different times; here each takes their mean");
  controls.encoder = gathered(step, costs, Module::encoder, left_out);
  controls.generator = gathered(step, costs, Module::generator, left_out);
  for (const auto& module : step.modules)
    if (module.kind == Module::encoder)
      controls.warmup_units = std::max(controls.warmup_units, module.warmup_units);
  if (!step.order.empty()) left_out.emplace_back("its microbatches are permuted; here they come in order");
  if (!step.spread && !step.modules.empty())
    left_out.emplace_back("its items stay with their microbatch's rank; here they are spread by size");
  return nearest;
}

}  // namespace bigmac
