#pragma once

#include <cstdint>
#include <vector>

#include "bigmac/schedule/table.h"

namespace bigmac {

// Runs every row in order, as far as it goes. try_run(rank, position, op) runs the operator and returns true,
// or returns false while something it needs has not run. Returns the position each rank reached: its row's
// length everywhere if the table has no deadlock.
template <class TryRun>
std::vector<int64_t> walk(const Schedule& schedule, TryRun&& try_run) {
  int ranks = schedule.ranks();
  std::vector<int64_t> position(ranks, 0);
  auto advance = [&](int rank) {
    auto row = schedule.row(rank);
    int64_t at = position[rank];
    while (at < int64_t(row.size()) && try_run(rank, at, row[at])) ++at;
    bool moved = at != position[rank];
    position[rank] = at;
    return moved;
  };
  // Forwards travel up the ranks and backwards down, so sweep both ways.
  bool moved = true;
  while (moved) {
    moved = false;
    for (int rank = 0; rank < ranks; ++rank) moved |= advance(rank);
    for (int rank = ranks - 1; rank >= 0; --rank) moved |= advance(rank);
  }
  return position;
}

}  // namespace bigmac
