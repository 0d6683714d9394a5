#pragma once

#include <vector>

#include "bigmac/timeline/explain.h"
#include "bigmac/view/wait_kind.h"

namespace bigmac {

struct NamedWait {
  Wait wait;
  WaitKind kind = WaitKind::host;
};

// By rank, in order of time, each with its kind; at most `most` over all ranks, of each rank its longest.
std::vector<std::vector<NamedWait>> named_waits(const Schedule& schedule, const Timeline& timeline,
                                                size_t most);

}  // namespace bigmac
