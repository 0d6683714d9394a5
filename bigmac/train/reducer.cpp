#include "bigmac/train/reducer.h"

namespace bigmac::train {
namespace {

std::vector<Reducer::Unit> chosen(const std::vector<Reducer::Unit>& units, bool full) {
  std::vector<Reducer::Unit> list;
  for (const auto& unit : units)
    if ((unit.unit->sharding() == Sharding::full) == full) list.push_back(unit);
  return list;
}

std::vector<ShardedWalk::Part> parts_of(const std::vector<Reducer::Unit>& units) {
  std::vector<ShardedWalk::Part> parts;
  for (const auto& unit : units) parts.push_back({unit.unit, unit.place.number});
  return parts;
}

}  // namespace

Reducer::Reducer(const std::vector<Unit>& units, Gather gather)
    : units_(chosen(units, false)), sharded_(chosen(units, true)), walk_(parts_of(sharded_), gather) {}

// Whether an operator may leave gradients in a unit's parameters.
bool Reducer::adds_to(const Operator& op, const UnitPlace& place) const {
  if (op.phase == Phase::forward || op.module != place.kind) return false;
  if (op.module == Module::backbone) return place.number < 0 || place.number == op.chunk;
  return schedule_->shares.list[op.index].module == place.number;
}

void Reducer::begin(const Schedule& schedule, int rank) {
  schedule_ = &schedule;
  last_.assign(units_.size(), -1);
  auto row = schedule.row(rank);
  for (size_t u = 0; u < units_.size(); ++u) {
    units_[u].unit->zero_gradients();
    for (size_t position = 0; position < row.size(); ++position)
      if (adds_to(row[position], units_[u].place)) last_[u] = int64_t(position);
  }
  for (auto& unit : sharded_) unit.unit->zero_gradients();
  walk_.begin(schedule, rank);
}

void Reducer::before(int64_t position, const Operator& op) {
  walk_.before(position);
}

void Reducer::after(int64_t position, const Operator& op) {
  for (size_t u = 0; u < units_.size(); ++u) {
    if (!adds_to(op, units_[u].place)) continue;
    units_[u].unit->fold();
    if (last_[u] == position) units_[u].unit->start_reduction();
  }
  walk_.after(position);
}

// Nothing may be waited for before the walk has come to its end: ranks that this one would wait for may wait
// for it there.
void Reducer::finish() {
  for (size_t u = 0; u < units_.size(); ++u)
    if (last_[u] < 0) units_[u].unit->start_reduction();
  walk_.finish();
  for (auto& unit : sharded_) unit.unit->start_reduction();
  for (auto& unit : units_) unit.unit->finish_reduction();
  for (auto& unit : sharded_) unit.unit->finish_reduction();
}

}  // namespace bigmac::train
