#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "bigmac/common/error.h"
#include "bigmac/measured/recorded.h"
#include "bigmac/timeline/explain.h"

// Whatever a file of measured steps holds, it is refused or shown: rows in order of time, each operator once.
extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, size_t size) {
  static const std::string path = "/tmp/bigmac_fuzz_" + std::to_string(getpid()) + ".json";
  auto* file = std::fopen(path.c_str(), "wb");
  std::fwrite(data, 1, size, file);
  std::fclose(file);
  try {
    auto recording = bigmac::recorded_step({path});
    for (const auto& row : recording.timeline.rows) {
      double free = recording.timeline.start;
      for (const auto& slice : row.operators) {
        if (!std::isfinite(slice.end) || slice.start < free || slice.end < slice.start) std::abort();
        free = slice.end;
      }
    }
    bigmac::critical_path(recording.schedule, recording.timeline);
    bigmac::longest_waits(recording.schedule, recording.timeline, 3);
  } catch (const bigmac::InvalidInput&) {
  }
  return 0;
}
