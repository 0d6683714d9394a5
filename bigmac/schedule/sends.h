#pragma once

#include <cstdint>
#include <span>

#include "bigmac/schedule/operator.h"

namespace bigmac {

// How a rank's sends behave.
//
//   buffered  a send leaves at once; the rank goes on.
//   blocking  a send waits for its receive: the rank starts its next backbone operator only when the receive
//   of what
//             it sent stands posted. A rank keeps one receive posted in each direction, for its next forward
//             and for its next backward, as Megatron's exchange of four buffers does. Embeddings, states for
//             the generator and their gradients are exchanged at the unit's place, on both ends.
enum class Sends { buffered, blocking };

// How many operators of `row` must have run before the receive for the backbone operator at `position` stands
// posted: all up to the backbone operator of the same phase before it.
inline int64_t receive_posted_after(std::span<const Operator> row, int64_t position) {
  const Operator& receiver = row[position];
  int64_t before = position - 1;
  while (before >= 0 && !(row[before].module == Module::backbone && row[before].phase == receiver.phase))
    --before;
  return before + 1;
}

}  // namespace bigmac
