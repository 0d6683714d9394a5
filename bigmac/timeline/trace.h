#pragma once

#include <optional>
#include <string>

#include "bigmac/timeline/recording.h"

namespace bigmac {

struct TraceOptions {
  double second =
      1;  // its length in the timeline's unit: 1 where measured; 1000 shows a unit as a millisecond
  // An arrow from each operator to those of other ranks that need its output; none given: where there are at
  // most kMostWithFlows operators, since viewers draw no more.
  std::optional<bool> flows{};
  std::optional<double> from{}, to{};  // a part of the step, in its unit of time from its start
  // Where there are more operators, those in the middle of each row, the steady state, are put together some
  // at a time, with what they took; 0: never.
  int64_t most = 0;
};
inline constexpr int64_t kMostWithFlows = 200'000;

// Writes a step as Chrome trace events (chrome://tracing, Perfetto): one process a rank, its operators on one
// thread and its waits and transfers on another, the bytes it holds as a counter. Operators carry their
// microbatch, or their items, as they were declared. A path that ends in .gz is compressed. Throws Failure
// naming the path and the reason, InvalidInput for a part that is none.
void write_trace(const Recording& recording, const std::string& path, const TraceOptions& options = {});
void write_trace(const Schedule& schedule, const Timeline& timeline, const std::string& path,
                 double second = 1);

}  // namespace bigmac
