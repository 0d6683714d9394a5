#include "bigmac/timeline/timeline.h"

namespace bigmac {
namespace {

double busy_time(const Timeline& timeline) {
  double busy = 0;
  for (const auto& time : rank_times(timeline)) busy += time.busy;
  return busy;
}

double total_time(const Timeline& timeline) {
  return timeline.length() * double(timeline.rows.size());
}

}  // namespace

std::vector<RankTime> rank_times(const Timeline& timeline) {
  std::vector<RankTime> times;
  for (const auto& row : timeline.rows) {
    RankTime time;
    for (const auto& slice : row.operators) time.busy += slice.end - slice.start;
    for (const auto& interval : row.intervals)
      (interval.spent == Spent::wait ? time.wait : time.transfer) += interval.end - interval.start;
    time.idle = timeline.length() - time.busy - time.transfer - time.wait;
    times.push_back(time);
  }
  return times;
}

double idle_over_total(const Timeline& timeline) {
  double total = total_time(timeline);
  return total > 0 ? 1 - busy_time(timeline) / total : 0;
}

double idle_over_busy(const Timeline& timeline) {
  double busy = busy_time(timeline);
  return busy > 0 ? total_time(timeline) / busy - 1 : 0;
}

}  // namespace bigmac
