#pragma once

#include "bigmac/schedule/dependencies.h"

namespace bigmac {

// How a rank's sends behave.
//
//   buffered  a send leaves at once; the rank goes on.
//   blocking  a send waits for its receive: the rank starts its next backbone operator only when the receive
//             of what it sent stands posted.
//
// A rank keeps one receive posted in each direction, for its next forward and for its next backward, as
// Megatron's exchange of four buffers does; where two chunks face each other (zb-v, dualpipe-v) one for each
// of them, since they come from different ranks. What goes from the last rank to the first, or back, is used
// a group later (gpipe: all microbatches later); where the group is larger than P it is received that much
// ahead and kept, as Megatron does too. What a unit exchanges (embeddings, states for the generator and their
// gradients) is exchanged at its place, on both ends; where the table is not cut by units, such messages are
// always buffered.
enum class Sends : uint8_t { buffered, blocking };

std::string_view name(Sends sends);            // buffered, blocking
Sends sends_from_name(std::string_view text);  // InvalidInput with the nearest known name

// For every operator, by its offset in the table: how many operators of its row must have run before the
// receive for it stands posted. That is all up to the backbone operator of the same direction before it, or
// before as many more as it is received ahead.
std::vector<int32_t> receives_posted_after(const Schedule& schedule);

}  // namespace bigmac
