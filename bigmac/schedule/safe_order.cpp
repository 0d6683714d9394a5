#include "bigmac/schedule/safe_order.h"

namespace bigmac {

SafeOrder::SafeOrder(const BackboneTimeline& backbone)
    : backbone_(backbone),
      expected_(backbone.table.operators.size(), 0),
      places_(backbone.table.operators.size(), kLater),
      last_(size_t(backbone.table.ranks()), -1) {}

bool SafeOrder::may_start(int32_t offset) {
  if (places_[offset] != kLater) return true;
  bool may = list_before(offset);
  for (int32_t o : listed_) places_[o] = kLater;
  return may;
}

void SafeOrder::start(int rank, int32_t offset) {
  if (places_[offset] == kLater) {
    list_before(offset);
    for (int32_t o : listed_) places_[o] = next_place_++;
  }
  last_[rank] = places_[offset];
}

// Lists the operator and, before each, all without a place that must have run before it: depth first. False
// if one of them expects an item.
bool SafeOrder::list_before(int32_t offset) {
  bool complete = true;
  path_.assign(1, offset);
  listed_.clear();
  while (complete && !path_.empty()) {
    int32_t o = path_.back();
    if (places_[o] == kLater) {
      places_[o] = kOpen;
      complete = !expects(o);
      const auto& before = backbone_.before[o];
      for (int32_t other : {before.in_row, before.sender, before.post})
        if (other != kNothing && places_[other] == kLater) path_.push_back(other);
      continue;
    }
    path_.pop_back();
    if (places_[o] != kOpen) continue;
    places_[o] = kListed;
    listed_.push_back(o);
  }
  for (int32_t o : path_) places_[o] = kLater;
  return complete;
}

}  // namespace bigmac
