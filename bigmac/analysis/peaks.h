#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bigmac/timeline/recording.h"

namespace bigmac {

// The most that a rank held, and what its row says it held then.
struct MemoryPeak {
  int rank = 0;
  double bytes = 0;
  std::optional<double> time{};  // in the timeline's unit from its start; none where only the peak is known
  std::string at{};              // the operator that ran then; "between operators"
  int64_t in_flight = 0;         // chunk-forwards whose backward had not run
  struct Items {
    std::string module;
    int64_t count = 0;  // of items whose forward had run (or ran) and whose backward had not
  };
  std::vector<Items> items{};
};

// By rank; empty where the recording has no memory. Where a curve is one value, what is held is the most that
// is held along the row.
std::vector<MemoryPeak> memory_peaks(const Recording& recording);

}  // namespace bigmac
