#pragma once

#include <cmath>

#include "bigmac/schedule/check.h"
#include "bigmac/schedule/dependencies.h"
#include "bigmac/timeline/recording.h"
#include "tests/measured/support.h"

namespace bigmac {

// What is wrong with a recording that was read from whatever files; "" for one that can be shown.
inline std::string unsound(const Recording& recording) {
  const auto& [schedule, timeline] = std::tie(recording.schedule, recording.timeline);
  auto ranks = size_t(schedule.ranks());
  if (timeline.rows.size() != ranks) return "rows";
  if (recording.missing.empty() != check(schedule).empty()) return "missing";
  Dependencies dependencies(schedule);
  std::vector<int> seen(size_t(dependencies.count()), 0);
  for (int rank = 0; rank < int(ranks); ++rank) {
    const auto& row = timeline.rows[size_t(rank)];
    if (row.operators.size() != schedule.row(rank).size()) return "row";
    double free = timeline.start;
    for (size_t n = 0; n < row.operators.size(); ++n) {
      const auto& [op, start, end] = row.operators[n];
      if (!(op == schedule.row(rank)[n])) return "operator";
      if (op.module == Module::backbone &&
          (op.index >= schedule.step.microbatches || op.chunk >= schedule.step.chunks ||
           dependencies.stage(rank, op.chunk) < 0))
        return "backbone operator";
      if (op.module != Module::backbone && op.index >= schedule.shares.list.size()) return "share";
      if (seen[size_t(dependencies.of(rank, op))]++ > 0) return "twice";
      if (!std::isfinite(start) || !std::isfinite(end) || start < free || end < start) return "times";
      free = end;
    }
    if (free > timeline.end + 1e-9) return "end";
    free = timeline.start;
    for (const auto& [spent, peer, op, start, end, bytes, sends] : row.intervals) {
      if (!std::isfinite(start) || !std::isfinite(end) || start < free || end < start) return "interval";
      free = end;
    }
    if (free > timeline.end + 1e-9) return "interval's end";
  }
  if (!recording.memory.empty() && recording.memory.size() != ranks) return "memory";
  for (const auto& [times, bytes] : recording.memory)
    if (times.size() != bytes.size() || !std::is_sorted(times.begin(), times.end())) return "memory curve";
  return "";
}

}  // namespace bigmac
