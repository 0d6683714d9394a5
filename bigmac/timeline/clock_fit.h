#pragma once

#include <span>

namespace bigmac {

// One exchange of the reference rank with another, in seconds of each one's own clock.
struct ClockProbe {
  double sent = 0;      // by the reference, on its clock
  double arrived = 0;   // at the other, on the other's clock
  double answered = 0;  // by the other, on the other's clock
  double back = 0;      // at the reference, on its clock

  // What the messages took there and back together.
  double round_trip() const { return (back - sent) - (answered - arrived); }
};

// How another rank's clock goes beside the reference's: at the reference's time t it shows
// t + offset + drift * (t - at).
struct ClockFit {
  double at = 0;
  double offset = 0;
  double drift = 0;
  double error = 0;  // the true offset is no farther away at the times of the probes it was taken from, half
                     // a round trip (Cristian 1989)

  double to_reference(double other) const { return at + (other - offset - at) / (1 + drift); }
};

// A message arrives after it was sent, so every probe bounds the offset from both sides; together they bound
// it more closely than the best of them. The earlier and the later half of the time that the probes cover
// give the line, where they tell a drift from their errors; else it is none. Clocks that may be one, as of
// ranks on one machine, are taken for one, and so are they without probes.
ClockFit fit_clock(std::span<const ClockProbe> probes);

}  // namespace bigmac
