#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "bigmac/schedule/step.h"

namespace bigmac {

// How a rank's sends behave.
//
//   buffered  a send leaves at once; the rank goes on.
//   blocking  a send waits for its receive: the rank starts its next backbone operator only when the receive
//             of what it sent stands posted.
//
// A rank keeps one receive posted in each direction, for its next forward and for its next backward, as
// Megatron's exchange of four buffers does. What goes from the last rank to the first, or back, is used a
// group later; where the group is larger than P it is received that much ahead and kept, as Megatron does
// too. Embeddings, states for the generator and their gradients are exchanged at the unit's place, on both
// ends.
enum class Sends { buffered, blocking };

// How many operators of `row` must have run before the receive for the backbone operator at `position` stands
// posted: all up to the backbone operator of the same phase before it, or before as many more as it is
// received ahead.
inline int64_t receive_posted_after(const Step& step, int rank, std::span<const Operator> row,
                                    int64_t position) {
  const Operator& receiver = row[position];
  int64_t ahead = 0;
  if (step.base == Base::interleaved && rank == (receiver.phase == Phase::forward ? 0 : step.ranks - 1)) {
    int64_t group = step.group_size(), first = receiver.microbatch / group * group;
    ahead = std::min(group, step.microbatches - first) - step.ranks;
  }
  int64_t before = position - 1;
  for (; before >= 0; --before)
    if (row[before].module == Module::backbone && row[before].phase == receiver.phase && ahead-- == 0) break;
  return before + 1;
}

}  // namespace bigmac
