#include "bigmac/schedule/complete.h"

#include <algorithm>

#include "bigmac/common/error.h"

namespace bigmac {
namespace {

bool belongs(const Schedule& schedule, const Dependencies& dependencies, int rank, const Operator& op) {
  const Step& step = schedule.step;
  if (op.module == Module::backbone) {
    bool phase_fits = op.phase == Phase::forward || op.phase == Phase::backward ||
                      (step.splits_backward() && (op.phase == Phase::input || op.phase == Phase::weight));
    return phase_fits && op.index < step.microbatches && op.chunk < step.chunks &&
           dependencies.stage(rank, op.chunk) >= 0;
  }
  if (op.index >= schedule.shares.list.size() || op.chunk != 0) return false;
  const Share& share = schedule.shares.list[op.index];
  const auto& module = schedule.module_of(share);
  return module.kind == op.module && module.runs(op.phase) && share.rank == rank;
}

std::string why_not(const Schedule& schedule, const Operator& op) {
  if (op.module != Module::encoder || op.index >= schedule.shares.list.size()) return "";
  const auto& module = schedule.module_of(schedule.shares.list[op.index]);
  bool frozen = !module.trained && op.phase == Phase::backward;
  return frozen ? concat(": '", module.name, "' is frozen and has no backward") : "";
}

std::string rows_malformed(const Schedule& schedule) {
  const auto& begin = schedule.row_begin;
  if (int64_t(begin.size()) != schedule.step.ranks + 1)
    return concat("the table has ", begin.empty() ? 0 : begin.size() - 1, " rows, the step has ",
                  schedule.step.ranks, " ranks");
  bool fits = begin.front() == 0 && begin.back() == int64_t(schedule.operators.size()) &&
              std::is_sorted(begin.begin(), begin.end());
  return fits ? "" : concat("the rows do not cover the table's ", schedule.operators.size(), " operators");
}

// Empty where the share is well made.
std::string share_malformed(const Schedule& schedule, size_t number) {
  const Share& share = schedule.shares.list[number];
  const Step& step = schedule.step;
  auto what = concat("share ", number);
  if (share.module < 0 || share.module >= int64_t(step.modules.size()))
    return concat(what, " is of module ", share.module, ", the step has ", step.modules.size());
  if (share.rank < 0 || share.rank >= step.ranks)
    return concat(what, " is on rank ", share.rank, ", the step has ranks 0 to ", step.ranks - 1);
  const auto& module = step.modules[share.module];
  what += concat(" of '", module.name, "'");
  if (share.count == 0 || uint64_t(share.first) + share.count > schedule.shares.items.size())
    return what + " has no items";
  auto items = schedule.shares.items_of(share);
  for (size_t i = 0; i < items.size(); ++i) {
    if (items[i] >= module.items.size())
      return concat(what, " has item ", items[i], ", the module has ", module.items.size());
    if (i > 0 && items[i] <= items[i - 1]) return concat(what, " does not have its items in order");
    int64_t unit = module.items[items[i]].microbatch / step.unit_size(module.kind);
    if (unit != share.unit)
      return concat(what, " has item ", items[i], " of unit ", unit, ", and is of unit ", share.unit);
  }
  return "";
}

}  // namespace

std::string where(const Schedule& schedule, int rank, int64_t position) {
  return concat("rank ", rank, " position ", position, " (", describe(schedule, schedule.row(rank)[position]),
                ")");
}

bool is_of(const Schedule& schedule, const Operator& op, const Unit& unit) {
  if (op.module == Module::backbone || op.phase != unit.phase) return false;
  const Share& share = schedule.shares.list[op.index];
  return share.module == unit.module && share.unit == unit.index;
}

std::vector<std::string> find_malformed(const Schedule& schedule) {
  try {
    check_step(schedule.step);
  } catch (const InvalidInput& error) {
    return {error.what()};
  }
  std::vector<std::string> problems;
  auto tell = [&](std::string text) {
    if (!text.empty() && problems.size() < kMostProblems) problems.push_back(std::move(text));
  };
  tell(rows_malformed(schedule));
  for (size_t number = 0; number < schedule.shares.list.size(); ++number)
    tell(share_malformed(schedule, number));
  if (!problems.empty() || schedule.step.arrangement == Arrangement::llm_only) return problems;
  for (size_t n = 0; n < schedule.step.modules.size(); ++n) {
    const auto& module = schedule.step.modules[n];
    std::vector<int64_t> share_of(module.items.size(), kNowhere);
    for (size_t number = 0; number < schedule.shares.list.size(); ++number) {
      if (schedule.shares.list[number].module != int64_t(n)) continue;
      for (uint32_t item : schedule.shares.items_of(schedule.shares.list[number])) {
        if (share_of[item] != kNowhere)
          tell(concat("item ", item, " of '", module.name, "' is in two shares, ", share_of[item], " and ",
                      number));
        share_of[item] = int64_t(number);
      }
    }
    for (size_t item = 0; item < share_of.size() && problems.size() < kMostProblems; ++item)
      if (share_of[item] == kNowhere)
        tell(concat("item ", item, " of '", module.name, "' (microbatch ", module.items[item].microbatch,
                    ") is on no rank"));
  }
  return problems;
}

std::vector<int32_t> find_operators(const Schedule& schedule, const Dependencies& dependencies,
                                    std::vector<std::string>& problems) {
  std::vector<int32_t> positions(dependencies.count(), kNowhere);
  auto tell = [&](std::string text) {
    if (problems.size() < kMostProblems) problems.push_back(std::move(text));
  };
  for (int rank = 0; rank < schedule.ranks(); ++rank) {
    auto row = schedule.row(rank);
    for (size_t p = 0; p < row.size() && problems.size() < kMostProblems; ++p) {
      if (!belongs(schedule, dependencies, rank, row[p])) {
        tell(where(schedule, rank, int64_t(p)) + " does not belong to this rank of the step" +
             why_not(schedule, row[p]));
        continue;
      }
      auto& position = positions[dependencies.of(rank, row[p])];
      if (position != kNowhere)
        tell(concat(where(schedule, rank, int64_t(p)), " is there twice, first at position ", position));
      position = int32_t(p);
    }
  }
  auto misses = [&](int rank, const Operator& op) {
    tell(concat("rank ", rank, " misses ", describe(schedule, op)));
  };
  int64_t backwards = dependencies.backward_of(0, 0), weights = dependencies.weight_of(0, 0);
  for (int64_t id = 0; id < weights && problems.size() < kMostProblems; ++id)
    if (positions[id] == kNowhere) misses(dependencies.at(id).rank, dependencies.at(id).op);
  // A weight gradient belongs to an input gradient, and to no whole backward.
  for (int64_t id = weights; id < dependencies.backbone_count() && problems.size() < kMostProblems; ++id) {
    int32_t backward = positions[id - weights + backwards];
    if (backward == kNowhere) continue;
    auto [rank, op] = dependencies.at(id);
    bool split = schedule.row(rank)[backward].phase == Phase::input;
    if (split && positions[id] == kNowhere) misses(rank, op);
    if (!split && positions[id] != kNowhere)
      tell(concat(where(schedule, rank, positions[id]), " is part of a backward that is whole at position ",
                  backward));
  }
  for (size_t share = 0; share < schedule.shares.list.size() && problems.size() < kMostProblems; ++share) {
    int rank = schedule.shares.list[share].rank;
    bool encodes = schedule.module_of(schedule.shares.list[share]).kind == Module::encoder;
    if (positions[dependencies.first_of(int64_t(share))] == kNowhere)
      misses(rank, encodes ? encoder_forward(int64_t(share)) : generate(int64_t(share)));
    if (dependencies.has_backward(int64_t(share)) &&
        positions[dependencies.second_of(int64_t(share))] == kNowhere)
      misses(rank, encoder_backward(int64_t(share)));
  }
  return positions;
}

}  // namespace bigmac
