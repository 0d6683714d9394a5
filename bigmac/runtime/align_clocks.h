#pragma once

#include <functional>

#include "bigmac/runtime/recorder.h"
#include "bigmac/runtime/transport.h"
#include "bigmac/timeline/clock_fit.h"

namespace bigmac {

using Clock = std::function<double()>;  // seconds

// How this rank's clock goes beside rank 0's, from messages that the two exchange.
class ClockAligner {
 public:
  // All ranks call it together, with the same number of rounds: rank 0 and each other rank send one another
  // `rounds` empty messages, rank by rank. Worth calling again from time to time, since clocks drift.
  void exchange(Transport& transport, int rounds, const Clock& clock = now);

  // Of all rounds so far; of rank 0, its own clock.
  ClockFit fit() const { return fit_clock(probes_); }

 private:
  std::vector<ClockProbe> probes_;
};

}  // namespace bigmac
