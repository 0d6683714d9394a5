#include "bigmac/train/sharded_plan.h"

#include <algorithm>

#include "bigmac/common/error.h"

namespace bigmac::train {
namespace {

bool has_operator(const Schedule& schedule, const Unit& unit, int rank) {
  auto row = schedule.row(rank);
  int64_t place = unit.place[size_t(rank)];
  if (place == int64_t(row.size())) return false;
  const auto& op = row[size_t(place)];
  if (op.module == Module::backbone || op.phase != unit.phase) return false;
  const auto& share = schedule.shares.list[op.index];
  return share.module == unit.module && share.unit == unit.index;
}

// Whether on every rank nothing runs between two units, the first before the second.
bool are_adjacent(const Schedule& schedule, const Unit& first, const Unit& second) {
  for (int rank = 0; rank < schedule.ranks(); ++rank) {
    int64_t behind = first.place[size_t(rank)] + (has_operator(schedule, first, rank) ? 1 : 0);
    if (second.place[size_t(rank)] != behind) return false;
  }
  return true;
}

std::vector<ShardedUse> collective_uses(const Schedule& schedule, int rank,
                                        const std::vector<bool>& is_sharded) {
  for (const auto& share : schedule.shares.list)
    if (is_sharded[size_t(share.module)] && schedule.units.empty())
      throw InvalidInput(concat("[train] the table of ", name(schedule.step.arrangement),
                                " has no places at which ranks could gather '",
                                schedule.module_of(share).name, "' together; take gather one-sided"));
  std::vector<ShardedUse> uses;
  const Unit* before = nullptr;
  for (const auto& unit : schedule.units) {
    if (!is_sharded[size_t(unit.module)]) continue;
    bool stays = before && before->module == unit.module && are_adjacent(schedule, *before, unit);
    if (stays) uses.back().frees = false;
    uses.push_back({unit.module, unit.place[size_t(rank)], has_operator(schedule, unit, rank), !stays, true,
                    unit.phase != Phase::forward});
    before = &unit;
  }
  return uses;
}

std::vector<ShardedUse> one_sided_uses(const Schedule& schedule, int rank,
                                       const std::vector<bool>& is_sharded) {
  std::vector<int64_t> first(schedule.step.modules.size(), -1);  // shares, by module
  for (size_t share = 0; share < schedule.shares.list.size(); ++share) {
    auto& of_module = first[size_t(schedule.shares.list[share].module)];
    if (of_module < 0) of_module = int64_t(share);
  }
  std::vector<ShardedUse> uses;
  auto row = schedule.row(rank);
  for (int64_t position = 0; position < int64_t(row.size()); ++position) {
    const auto& op = row[size_t(position)];
    if (op.module == Module::backbone) continue;
    int32_t module = schedule.shares.list[op.index].module;
    if (!is_sharded[size_t(module)]) continue;
    bool stays = !uses.empty() && uses.back().module == module && uses.back().position + 1 == position;
    if (stays) uses.back().frees = false;
    uses.push_back({module, position, true, !stays, true, op.phase != Phase::forward,
                    int64_t(op.index) - first[size_t(module)]});
  }
  return uses;
}

}  // namespace

std::vector<ShardedUse> sharded_uses(const Schedule& schedule, int rank, const std::vector<bool>& is_sharded,
                                     Gather gather) {
  return gather == Gather::collective ? collective_uses(schedule, rank, is_sharded)
                                      : one_sided_uses(schedule, rank, is_sharded);
}

int64_t turns_of(const Schedule& schedule, int32_t module) {
  const auto& declared = schedule.step.modules[size_t(module)];
  if (!declared.runs(Phase::backward) && !declared.runs(Phase::generate)) return 0;
  return std::count_if(schedule.shares.list.begin(), schedule.shares.list.end(),
                       [&](const Share& share) { return share.module == module; });
}

}  // namespace bigmac::train
