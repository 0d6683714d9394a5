#include "bigmac/schedule/order.h"

#include <algorithm>
#include <numeric>

#include "bigmac/common/error.h"
#include "bigmac/schedule/spread.h"

namespace bigmac {
namespace {

constexpr double kNegligible = 0.01;

using Units = std::vector<std::vector<uint32_t>>;

// Where no costs are given, items count by their size alone.
double cost_of(const Step& step, const Costs& costs, size_t module) {
  if (costs.modules.empty()) return 1;
  auto cost = costs_of_module(step, costs, module);
  return cost.forward + cost.backward;
}

std::vector<UnitLoss> losses(const Step& step, const Costs& costs) {
  std::vector<UnitLoss> out(step.modules.size());
  Shares shares = spread(step);
  const auto& list = shares.list;
  for (size_t first = 0, last; first < list.size(); first = last) {
    auto& loss = out[list[first].module];
    double cost = cost_of(step, costs, size_t(list[first].module)), slowest = 0, sum = 0;
    for (last = first;
         last < list.size() && list[last].module == list[first].module && list[last].unit == list[first].unit;
         ++last) {
      double size = 0;
      for (uint32_t item : shares.items_of(list[last]))
        size += step.modules[list[last].module].items[item].size;
      slowest = std::max(slowest, size);
      sum += size;
    }
    loss.slowest += cost * slowest;
    loss.mean += cost * sum / double(step.ranks);
  }
  return out;
}

// Alike largest items together, in units of `size`, the largest first.
Units grouped(const Step& step, const NestedModule& module, int64_t size) {
  std::vector<double> largest(size_t(step.microbatches), 0);
  for (const auto& item : module.items)
    largest[item.microbatch] = std::max(largest[item.microbatch], item.size);
  std::vector<uint32_t> order(size_t(step.microbatches));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](uint32_t a, uint32_t b) { return largest[a] > largest[b]; });
  Units units;
  for (size_t first = 0; first < order.size(); first += size_t(size))
    units.emplace_back(order.begin() + int64_t(first),
                       order.begin() + int64_t(std::min(first + size_t(size), order.size())));
  return units;
}

// Dealt out by falling weight, each to the unit with the least so far that has room.
Units dealt(const std::vector<double>& weights, int64_t size) {
  auto count = int64_t(weights.size());
  Units units(size_t((count + size - 1) / size));
  std::vector<double> sums(units.size(), 0);
  std::vector<uint32_t> order(weights.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](uint32_t a, uint32_t b) { return weights[a] > weights[b]; });
  for (uint32_t m : order) {
    size_t best = units.size();
    for (size_t u = 0; u < units.size(); ++u) {
      auto room = size_t(std::min(size, count - int64_t(u) * size));
      if (units[u].size() < room && (best == units.size() || sums[u] < sums[best])) best = u;
    }
    units[best].push_back(m);
    sums[best] += weights[m];
  }
  return units;
}

// Heaviest, lightest, second heaviest, second lightest, ...; a last unit that is not full stays last.
std::vector<uint32_t> taking_turns(Units units, const std::vector<double>& weights, int64_t size) {
  auto weight = [&](const std::vector<uint32_t>& unit) {
    double sum = 0;
    for (uint32_t m : unit) sum += weights[m];
    return sum;
  };
  auto full = units.end();
  if (int64_t(units.back().size()) < size) --full;
  std::stable_sort(units.begin(), full, [&](const auto& a, const auto& b) { return weight(a) > weight(b); });
  std::vector<uint32_t> order;
  auto add = [&](std::vector<uint32_t>& unit) {
    std::sort(unit.begin(), unit.end());
    order.insert(order.end(), unit.begin(), unit.end());
  };
  int64_t first = 0, last = full - units.begin() - 1;
  while (first <= last) {
    add(units[first++]);
    if (first <= last) add(units[last--]);
  }
  if (full != units.end()) add(units.back());
  return order;
}

}  // namespace

Step reordered(const Step& step, const std::vector<uint32_t>& order) {
  Step out = step;
  out.order = order;
  check_step(out);
  if (order.empty()) {
    out.order = step.order;
    return out;
  }
  std::vector<uint32_t> position(order.size());
  for (size_t p = 0; p < order.size(); ++p) {
    position[order[p]] = uint32_t(p);
    out.order[p] = step.declared(order[p]);
  }
  for (auto& module : out.modules) {
    for (auto& item : module.items) item.microbatch = position[item.microbatch];
    std::stable_sort(module.items.begin(), module.items.end(),
                     [](const Item& a, const Item& b) { return a.microbatch < b.microbatch; });
  }
  return out;
}

UnitLoss unit_loss(const Step& step, const Costs& costs) {
  UnitLoss total;
  for (const auto& loss : losses(step, costs)) {
    total.slowest += loss.slowest;
    total.mean += loss.mean;
  }
  return total;
}

std::vector<uint32_t> balanced_order(const Step& step, const Costs& costs) {
  check_step(step);
  std::vector<uint32_t> as_is(size_t(step.microbatches));
  std::iota(as_is.begin(), as_is.end(), 0);
  if (step.modules.empty()) return as_is;
  auto by_module = losses(step, costs);
  auto loss = [](const UnitLoss& unit) { return unit.slowest - unit.mean; };
  size_t worst = 0;
  for (size_t n = 1; n < by_module.size(); ++n)
    if (loss(by_module[n]) > loss(by_module[worst])) worst = n;

  std::vector<double> held(as_is.size(), 0);  // encoder work of each microbatch
  for (size_t n = 0; n < step.modules.size(); ++n) {
    if (step.modules[n].kind == Module::generator && step.has(Module::encoder)) continue;
    for (const auto& item : step.modules[n].items)
      held[item.microbatch] += item.size * cost_of(step, costs, n);
  }
  const auto& module = step.modules[worst];
  bool splits = loss(by_module[worst]) <= kNegligible * by_module[worst].mean;
  int64_t size = splits ? step.ranks : step.unit_size(module.kind);
  auto order = taking_turns(splits ? dealt(held, size) : grouped(step, module, size), held, size);
  if (splits) return order;
  return unit_loss(reordered(step, order), costs).slowest < unit_loss(step, costs).slowest ? order : as_is;
}

}  // namespace bigmac
