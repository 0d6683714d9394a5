#include "bigmac/schedule/messages.h"

#include "bigmac/schedule/dependencies.h"

namespace bigmac {

Inbox plan_inbox(const Schedule& schedule, int rank) {
  Dependencies dependencies(schedule);
  Inbox inbox;
  inbox.from.resize(schedule.ranks());
  for (int sender = 0; sender < schedule.ranks(); ++sender) {
    if (sender == rank) continue;
    for (const auto& op : schedule.row(sender)) {
      bool sends = false;
      dependencies.for_each_receiver(sender, op, [&](int64_t, int to) { sends |= to == rank; });
      if (sends) inbox.from[sender].push_back(dependencies.of(sender, op));
    }
  }
  return inbox;
}

}  // namespace bigmac
