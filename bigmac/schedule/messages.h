#pragma once

#include <vector>

#include "bigmac/schedule/table.h"

namespace bigmac {

// What a rank receives in a step, made from the table alone. Every operator takes at most one message.
struct Inbox {
  // By sending rank: the ids of the operators that its messages are for, in the order in which it sends them,
  // which is the order of its row. A transport that keeps the order of each pair of ranks needs no tags.
  std::vector<std::vector<int64_t>> from;
};
Inbox plan_inbox(const Schedule& schedule, int rank);

}  // namespace bigmac
