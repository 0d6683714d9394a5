#include "bigmac/view/waits.h"

#include <algorithm>

namespace bigmac {
namespace {

double first_backward(const Timeline::Row& row, double end) {
  auto first = std::find_if(row.operators.begin(), row.operators.end(), [](const Slice& slice) {
    return slice.op.module == Module::backbone && slice.op.phase != Phase::forward;
  });
  return first == row.operators.end() ? end : first->start;
}

}  // namespace

std::vector<std::vector<NamedWait>> named_waits(const Schedule& schedule, const Timeline& timeline,
                                                size_t most) {
  std::vector<std::vector<NamedWait>> named(timeline.rows.size());
  if (named.empty()) return named;
  auto longest = longest_waits(schedule, timeline, std::max<size_t>(1, most / named.size()));
  for (size_t rank = 0; rank < named.size(); ++rank) {
    const auto& row = timeline.rows[rank];
    double steady = first_backward(row, timeline.end);
    for (const auto& wait : longest[rank]) {
      auto kind = kind_of(wait, row, steady);
      named[rank].push_back({wait, kind});
    }
    std::sort(named[rank].begin(), named[rank].end(),
              [](const NamedWait& a, const NamedWait& b) { return a.wait.start < b.wait.start; });
  }
  return named;
}

}  // namespace bigmac
