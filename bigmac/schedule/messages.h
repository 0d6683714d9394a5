#pragma once

#include <vector>

#include "bigmac/schedule/table.h"

namespace bigmac {

// What a rank receives in a step, made from the table alone. An operator sends one message to each rank that
// needs its output, whatever number of operators there needs it.
struct Inbox {
  // By sending rank: the ids of the operators whose messages come, in the order in which that rank sends
  // them, which is the order of its row. A transport that keeps the order of each pair of ranks needs no
  // tags.
  std::vector<std::vector<int64_t>> from;
};
Inbox plan_inbox(const Schedule& schedule, int rank);

}  // namespace bigmac
