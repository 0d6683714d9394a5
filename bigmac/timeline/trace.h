#pragma once

#include <string>

#include "bigmac/schedule/table.h"
#include "bigmac/timeline/timeline.h"

namespace bigmac {

// Writes the timeline of a schedule as Chrome trace events (chrome://tracing, Perfetto): one process a rank,
// its operators on one thread and its waits and transfers on another. `second` is the length of a second in
// the timeline's unit: 1 where measured; 1000 shows a simulated unit as a millisecond. Operators carry their
// microbatch, or their items, as they were declared. Throws Failure naming the path and the reason.
void write_trace(const Schedule& schedule, const Timeline& timeline, const std::string& path,
                 double second = 1);

}  // namespace bigmac
