#pragma once

#include <string>
#include <vector>

#include "bigmac/schedule/table.h"
#include "bigmac/timeline/timeline.h"

namespace bigmac {

// Bytes that a rank holds from times[i] on, in the timeline's unit of time.
struct MemoryCurve {
  std::vector<double> times{}, bytes{};
};

// One step to look at, whatever it comes from: measured, or simulated.
struct Recording {
  std::string name;  // "step 12", "nested, simulated"
  Schedule schedule;
  Timeline timeline;
  bool measured = false;              // then the unit of time is a second
  std::vector<MemoryCurve> memory{};  // by rank; empty where it is not known
  double memory_limit = 0;            // bytes of a rank; 0: not known
  std::vector<std::string> notes{};   // what is missing or was assumed
  // What a whole step would have besides, in words; then rows may be empty, and operators may lack what they
  // need.
  std::vector<std::string> missing{};
};

}  // namespace bigmac
