#include "bigmac/schedule/table.h"

#include <algorithm>

#include "bigmac/common/error.h"

namespace bigmac {
namespace {

// An item's number within its microbatch.
size_t number_in_microbatch(const NestedModule& module, uint32_t item) {
  auto first = std::lower_bound(module.items.begin(), module.items.end(), module.items[item].microbatch,
                                [](const Item& a, uint32_t m) { return a.microbatch < m; });
  return item - size_t(first - module.items.begin());
}

}  // namespace

double size_of(const Schedule& schedule, const Share& share) {
  double size = 0;
  for (uint32_t item : schedule.shares.items_of(share)) size += schedule.module_of(share).items[item].size;
  return size;
}

std::string describe(const Schedule& schedule, const Operator& op) {
  if (op.module == Module::backbone || op.index >= schedule.shares.list.size()) return long_name(op);
  const Share& share = schedule.shares.list[op.index];
  const auto& module = schedule.module_of(share);
  auto items = schedule.shares.items_of(share);
  std::string text = concat(module.name, " ", letter(op.phase), " unit ", share.unit,
                            items.size() == 1 ? " item " : " items ");
  for (size_t i = 0; i < items.size(); ++i) {
    uint32_t m = module.items[items[i]].microbatch;
    text += concat(number_in_microbatch(module, items[i]));
    bool last = i + 1 == items.size();
    if (last || module.items[items[i + 1]].microbatch != m)
      text += concat(" of microbatch ", m, last ? "" : ", ");
    else
      text += ",";
  }
  return text;
}

std::string item_list(const Schedule& schedule, const Share& share) {
  const auto& module = schedule.module_of(share);
  std::string text;
  for (uint32_t item : schedule.shares.items_of(share))
    text += concat(text.empty() ? "" : " ", module.items[item].microbatch, ".",
                   number_in_microbatch(module, item));
  return text;
}

}  // namespace bigmac
