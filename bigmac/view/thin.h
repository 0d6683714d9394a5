#pragma once

#include <cstddef>

#include "bigmac/timeline/recording.h"

namespace bigmac {

// A curve of at most about `most` points: of each of as many equal groups of points as fit, the lowest and
// the highest, in order of time. The curve's peak stays what it is, and so does its first value.
MemoryCurve thin(const MemoryCurve& curve, size_t most);

}  // namespace bigmac
