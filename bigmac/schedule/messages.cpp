#include "bigmac/schedule/messages.h"

#include "bigmac/schedule/dependencies.h"

namespace bigmac {

Inbox plan_inbox(const Schedule& schedule, int rank) {
  Ids ids(schedule.step);
  Inbox inbox;
  inbox.from.resize(schedule.ranks());
  for (int sender = 0; sender < schedule.ranks(); ++sender) {
    if (sender == rank) continue;
    for (const auto& op : schedule.row(sender))
      for_each_receiver(schedule.step, ids, sender, op, [&](int64_t id, int to) {
        if (to == rank) inbox.from[sender].push_back(id);
      });
  }
  return inbox;
}

}  // namespace bigmac
