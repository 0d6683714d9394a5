#pragma once

#include <map>

#include "bigmac/runtime/transport.h"
#include "bigmac/timeline/timeline.h"

namespace bigmac {

// The measured timeline of a step on every rank, from each rank's row and the time its step began and ended.
// All ranks call it together.
Timeline gather_timeline(Transport& transport, const Timeline::Row& row, double start, double end);

// Named tensors of all ranks, on rank 0 and on the CPU; empty elsewhere. No two ranks give the same name. All
// ranks call it together.
std::map<std::string, torch::Tensor> gather_named(
    Transport& transport, const std::vector<std::pair<std::string, torch::Tensor>>& own);

}  // namespace bigmac
