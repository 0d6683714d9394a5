#pragma once

#include <map>
#include <string>
#include <vector>

#include "bigmac/timeline/recording.h"

namespace bigmac {

// What bigmac's own traces (trace.h) say of a rank besides its operators, in microseconds of the trace.
struct OwnEvents {
  double first_operator = -1;         // where the rank's first operator starts
  std::vector<Interval> intervals{};  // without the operator they were for
  MemoryCurve memory{};
  double memory_limit = 0;  // bytes; 0: not said
};

// By rank; empty for traces of others. Throws InvalidInput as walk_file does (json_stream.h).
std::map<int64_t, OwnEvents> read_own_events(const std::vector<std::string>& paths);

}  // namespace bigmac
