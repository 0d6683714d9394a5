#pragma once

#include "bigmac/plan/make_job.h"

namespace bigmac {

// Whether layers may be dealt out anew where the balanced ones do not fit (Estimator::evaluate).
bool can_shift_layers(const Configuration& configuration);

// Microbatches in flight of each chunk of each rank of a base, at the moment of that rank with most of them:
// [rank][chunk]. No arrangement of the base holds fewer.
using InFlight = std::vector<std::vector<int32_t>>;
InFlight in_flight_of(const Step& step);

// Bounds of the backbone's ranks, encoders and generators aside (but for the time of megatron's, which are
// part of its stages): with the configuration's own layers, or, where they may be dealt out anew, with any
// layers.
struct RankBounds {
  double seconds = 0;  // the work of the rank with most of it, and the first microbatch's way there and back
  std::vector<double> end;    // by rank: seconds of the gradients and the update
  std::vector<double> bytes;  // by rank: states, and microbatches in flight
};
RankBounds rank_bounds(const JobParts& parts, const InFlight& in_flight);
RankBounds any_layers_bounds(const JobParts& parts, const InFlight& in_flight);

// No configuration's outcome is below these, whatever its schedule.
struct LeastOutcome {
  double step = 0;    // seconds
  double memory = 0;  // bytes
};
LeastOutcome least_outcome(const JobParts& parts, const RankBounds& bounds);

}  // namespace bigmac
