#pragma once

#include <optional>

#include "bigmac/schedule/costs.h"
#include "bigmac/schedule/table.h"
#include "bigmac/timeline/recording.h"

namespace bigmac {

// The step whose table a recorded one is, as make_schedule would be asked for it.
struct Recognised {
  Step step;  // base, arrangement and W; the recorded one's shape
  bool base_known = false;
  bool exact = false;  // its table has the same rows
};
Recognised recognise(const Recording& recording, const Costs& costs);

}  // namespace bigmac
