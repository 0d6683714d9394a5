#include "bigmac/schedule/labels.h"

#include "bigmac/common/error.h"

namespace bigmac {

Labels::Labels(const Schedule& schedule) : schedule_(schedule) {
  int of_kind[3] = {}, seen[3] = {};
  for (const auto& module : schedule.step.modules) ++of_kind[size_t(module.kind)];
  for (const auto& module : schedule.step.modules) {
    auto kind = size_t(module.kind);
    std::string number = of_kind[kind] > 1 ? std::to_string(seen[kind]++) : "";
    prefixes_.push_back(number + (module.kind == Module::encoder ? "E" : ""));
    std::vector<uint32_t> first(size_t(schedule.step.microbatches) + 1, 0);
    for (const auto& item : module.items) ++first[item.microbatch + 1];
    for (size_t m = 1; m < first.size(); ++m) first[m] += first[m - 1];
    first_items_.push_back(std::move(first));
  }
}

std::string Labels::operator()(const Operator& op) const {
  if (op.module == Module::backbone) return short_name(op);
  return concat(prefixes_[schedule_.shares.list[op.index].module], letter(op.phase), number(op));
}

std::string Labels::number(const Operator& op) const {
  if (op.module == Module::backbone) return std::to_string(op.index);
  const Share& share = schedule_.shares.list[op.index];
  auto items = schedule_.shares.items_of(share);
  const auto& module = schedule_.module_of(share);
  uint32_t m = module.items[items.front()].microbatch;
  uint32_t first = first_items_[share.module][m], there = first_items_[share.module][m + 1] - first;
  if (module.items[items.back()].microbatch == m) {
    if (items.size() == there) return std::to_string(m);
    if (items.size() == 1) return concat(m, ".", items[0] - first);
  }
  return concat("u", share.unit);
}

}  // namespace bigmac
