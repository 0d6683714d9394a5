#include "bigmac/schedule/spread.h"

#include <algorithm>
#include <numeric>
#include <queue>

namespace bigmac {
namespace {

// Calls visit(module, unit, items [first, last), ranks) for every unit with items.
template <class Visit>
void for_each_unit(const Step& step, Visit&& visit) {
  for (size_t n = 0; n < step.modules.size(); ++n) {
    const auto& module = step.modules[n];
    int64_t size = step.unit_size(module.kind);
    for (size_t first = 0, last; first < module.items.size(); first = last) {
      int64_t unit = module.items[first].microbatch / size;
      last = first;
      while (last < module.items.size() && module.items[last].microbatch / size == unit) ++last;
      std::vector<int32_t> ranks;
      if (step.spread) {
        std::vector<double> sizes;
        for (size_t i = first; i < last; ++i) sizes.push_back(module.items[i].size);
        ranks = longest_first(sizes, step.ranks);
      } else {
        for (size_t i = first; i < last; ++i)
          ranks.push_back(int32_t(module.items[i].microbatch % step.ranks));
      }
      visit(int32_t(n), int32_t(unit), uint32_t(first), ranks);
    }
  }
}

}  // namespace

std::vector<int32_t> longest_first(const std::vector<double>& sizes, int64_t ranks,
                                   const std::vector<double>& held) {
  std::vector<uint32_t> order(sizes.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return sizes[a] > sizes[b]; });
  using Load = std::pair<double, int32_t>;
  std::priority_queue<Load, std::vector<Load>, std::greater<>> loads;
  for (int32_t r = 0; r < ranks; ++r) loads.emplace(held.empty() ? 0 : held[r], r);
  std::vector<int32_t> out(sizes.size());
  for (uint32_t i : order) {
    auto [load, rank] = loads.top();
    loads.pop();
    out[i] = rank;
    loads.emplace(load + sizes[i], rank);
  }
  return out;
}

Shares spread(const Step& step) {
  Shares shares;
  std::vector<std::vector<uint32_t>> by_rank(size_t(step.ranks));
  for_each_unit(step, [&](int32_t module, int32_t unit, uint32_t first, const std::vector<int32_t>& ranks) {
    for (size_t i = 0; i < ranks.size(); ++i) by_rank[ranks[i]].push_back(first + uint32_t(i));
    for (int32_t r = 0; r < step.ranks; ++r) {
      auto& items = by_rank[r];
      if (items.empty()) continue;
      shares.list.push_back({module, unit, r, uint32_t(shares.items.size()), uint32_t(items.size())});
      shares.items.insert(shares.items.end(), items.begin(), items.end());
      items.clear();
    }
  });
  return shares;
}

Shares spread_singly(const Step& step) {
  Shares shares;
  for_each_unit(step, [&](int32_t module, int32_t unit, uint32_t first, const std::vector<int32_t>& ranks) {
    for (size_t i = 0; i < ranks.size(); ++i) {
      shares.list.push_back({module, unit, ranks[i], uint32_t(shares.items.size()), 1});
      shares.items.push_back(first + uint32_t(i));
    }
  });
  return shares;
}

Step only_items_of(Module kind, Step step) {
  for (auto& module : step.modules)
    if (module.kind != kind) module.items.clear();
  return step;
}

std::vector<double> unit_sizes(const Step& step, const Shares& spread) {
  std::vector<double> most(step.modules.size(), 0);
  for (const auto& share : spread.list) {
    double size = 0;
    for (uint32_t item : spread.items_of(share)) size += step.modules[share.module].items[item].size;
    most[share.module] = std::max(most[share.module], size);
  }
  return most;
}

}  // namespace bigmac
