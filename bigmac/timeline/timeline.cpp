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

std::string_view name(Spent spent) {
  switch (spent) {
    case Spent::transfer:
      return "transfer";
    case Spent::wait:
      return "wait";
    case Spent::order:
      return "order";
  }
  return "";
}

std::vector<RankTime> rank_times(const Timeline& timeline) {
  std::vector<RankTime> times;
  for (const auto& row : timeline.rows) {
    RankTime time;
    for (const auto& slice : row.operators) time.busy += slice.end - slice.start;
    for (const auto& interval : row.intervals) {
      auto& part = interval.spent == Spent::wait    ? time.wait
                   : interval.spent == Spent::order ? time.order
                                                    : time.transfer;
      part += interval.end - interval.start;
    }
    time.idle = timeline.length() - time.busy - time.transfer - time.order - time.wait;
    times.push_back(time);
  }
  return times;
}

TimeShares time_shares(const Timeline& timeline) {
  TimeShares shares;
  double total = total_time(timeline);
  if (total <= 0) return shares;
  for (const auto& time : rank_times(timeline)) {
    shares.busy += time.busy / total;
    shares.transfer += time.transfer / total;
    shares.order += time.order / total;
    shares.bubble += time.bubble() / total;
  }
  return shares;
}

Timeline without_empty_rows(const Timeline& timeline) {
  Timeline known{timeline.start, timeline.end, {}};
  for (const auto& row : timeline.rows)
    if (!row.operators.empty()) known.rows.push_back(row);
  return known;
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
