#pragma once

#include <map>

#include "bigmac/runtime/recorder.h"
#include "bigmac/runtime/transport.h"
#include "bigmac/timeline/clock_fit.h"

namespace bigmac {

// A rank's share of a step that was measured, on the rank's own clock.
struct RankStep {
  RowRecord record{};
  double began = 0, ended = 0;
  ClockFit clock{};  // beside rank 0's
};

// All of them, on rank 0's clock.
struct MeasuredRanks {
  Timeline timeline{};
  std::vector<MemoryCurve> memory{};  // by rank; empty where no rank knows it
  double clock_error = 0;             // seconds, the largest of the ranks'
};
// On every rank. All ranks call it together.
MeasuredRanks gather_step(Transport& transport, const RankStep& step);

// Named tensors of all ranks, on rank 0 and on the CPU; empty elsewhere. No two ranks give the same name. All
// ranks call it together.
std::map<std::string, torch::Tensor> gather_named(
    Transport& transport, const std::vector<std::pair<std::string, torch::Tensor>>& own);

}  // namespace bigmac
