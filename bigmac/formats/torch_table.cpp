#include "bigmac/formats/torch_table.h"

#include <algorithm>

#include "bigmac/common/error.h"
#include "bigmac/formats/table_header.h"
#include "bigmac/formats/torch_shape.h"
#include "bigmac/schedule/dependencies.h"

namespace bigmac {
namespace {

Phase phase_of(TorchKind kind) {
  switch (kind) {
    case TorchKind::forward:
      return Phase::forward;
    case TorchKind::input_gradient:
      return Phase::input;
    case TorchKind::weight_gradient:
      return Phase::weight;
    default:
      return Phase::backward;
  }
}

TorchKind kind_of(Phase phase) {
  switch (phase) {
    case Phase::forward:
      return TorchKind::forward;
    case Phase::input:
      return TorchKind::input_gradient;
    case Phase::weight:
      return TorchKind::weight_gradient;
    default:
      return TorchKind::full_backward;
  }
}

TorchAction action_of(const Step& step, const Dependencies& dependencies, int rank, const Operator& op) {
  if (op.module != Module::backbone)
    throw InvalidInput(concat("[torch csv] has no form for encoder and generator operators such as ",
                              long_name(op), "; take an llm-only table"));
  int64_t stage = op.chunk < step.chunks ? dependencies.stage(rank, op.chunk) : -1;
  if (stage < 0 || op.index >= dependencies.microbatches() || op.phase == Phase::generate)
    throw InvalidInput(concat("[torch csv] rank ", rank, " of the step has no ", long_name(op)));
  return {step.declared(op.index), uint16_t(stage), kind_of(op.phase)};
}

}  // namespace

Schedule to_schedule(const TorchTable& table, const std::string& file) {
  Schedule schedule{.step = step_of(table, file, false),
                    .operators = {},
                    .row_begin = {0},
                    .shares = {},
                    .units = {},
                    .overlapped = {}};
  Dependencies dependencies(schedule);
  std::vector<int32_t> stage_chunks;
  for (int64_t s = 0; s < dependencies.stages(); ++s) stage_chunks.push_back(dependencies.chunk_of(s));
  auto add = [&](const TorchAction& action) {
    if (is_computation(action.kind))
      schedule.operators.push_back(
          backbone(phase_of(action.kind), stage_chunks[action.stage], action.microbatch));
  };
  for (const auto& row : table.rows) {
    for (const auto& cell : row) {
      bool swapped = cell.second.kind == TorchKind::forward;
      if (cell.overlaps()) schedule.overlapped.push_back(int64_t(schedule.operators.size()));
      add(swapped ? cell.second : cell.first);
      add(swapped ? cell.first : cell.second);
    }
    schedule.row_begin.push_back(int64_t(schedule.operators.size()));
  }
  return schedule;
}

TorchTable to_torch(const Schedule& schedule, TorchDialect dialect) {
  constexpr int64_t kMostStages = int64_t{UINT16_MAX} + 1;
  if (schedule.step.stages() > kMostStages)
    throw InvalidInput(
        concat("[torch csv] holds at most ", kMostStages, " stages, the step has ", schedule.step.stages()));
  if (int64_t bad = find_bad_overlap(schedule); bad >= 0)
    throw InvalidInput(
        concat("[torch csv] operator ", bad, " is marked as overlapped and has no backward behind it"));
  Dependencies dependencies(schedule.step, {});
  TorchTable table;
  table.dialect = dialect;
  table.line_end = LineEnd::lf;
  auto overlapped = schedule.overlapped.begin();
  for (int rank = 0; rank < schedule.ranks(); ++rank) {
    auto& row = table.rows.emplace_back();
    for (int64_t at = schedule.row_begin[rank]; at < schedule.row_begin[rank + 1]; ++at) {
      auto action = action_of(schedule.step, dependencies, rank, schedule.operators[size_t(at)]);
      bool behind_overlapped = overlapped != schedule.overlapped.end() && *overlapped == at - 1;
      if (!behind_overlapped) {
        row.push_back({action, {}});
        continue;
      }
      row.back().second = action;
      ++overlapped;
    }
  }
  return table;
}

bool has_communication(const TorchTable& table) {
  for (const auto& row : table.rows)
    for (const auto& cell : row)
      if (!cell.idle() && !is_computation(cell.first.kind)) return true;
  return false;
}

}  // namespace bigmac
