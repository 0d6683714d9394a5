#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "bigmac/timeline/timeline.h"

namespace bigmac {

// A timeline's times as whole numbers of 32 bits, counted from its start: a power of ten to a unit of time,
// the largest that fits. Times with few decimal digits are exact so.
struct Ticks {
  double start = 0;
  double per_unit = 1;

  explicit Ticks(const Timeline& timeline) : start(timeline.start) {
    double length = timeline.length();
    if (!(length > 0)) return;
    constexpr double kMost = 4e9;
    double exponent = std::floor(std::log10(kMost / length));
    per_unit = std::pow(10, exponent);
  }
  uint32_t of(double time) const { return length((time - start)); }
  uint32_t length(double span) const {
    return uint32_t(std::clamp(std::round(span * per_unit), 0.0, 4294967294.0));
  }
};

}  // namespace bigmac
