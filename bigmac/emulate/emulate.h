#pragma once

#include "bigmac/emulate/emulated_model.h"
#include "bigmac/runtime/transport.h"
#include "bigmac/timeline/timeline.h"

namespace bigmac {

// Runs the schedule `steps` times on this transport's ranks, with the real executor and messages, after one
// step that does not count. Every rank calls it and gets all of them, in seconds. Throws as Executor::run.
std::vector<Timeline> emulate(const Schedule& schedule, const Emulation& emulation, Transport& transport,
                              int64_t steps);

// The one of median length (of two in the middle the shorter).
const Timeline& median_of(const std::vector<Timeline>& timelines);

}  // namespace bigmac
