#include <algorithm>
#include <cmath>

#include "bigmac/common/error.h"
#include "bigmac/measured/mend.h"

namespace bigmac {

std::string told(const RawRank& rank, const RawOperator& op) {
  return concat("rank ", rank.rank, ", ", shown(op), " at ", op.start, " s");
}

namespace {

bool is_finite(double start, double end) {
  return std::isfinite(start) && std::isfinite(end);
}

// The time around a rank's operators in which all of them are believed.
std::pair<double, double> believed(const RawRank& rank) {
  constexpr size_t kFewest = 8;
  constexpr double kFar = 10'000;
  if (rank.operators.size() < kFewest) return {-HUGE_VAL, HUGE_VAL};
  std::vector<double> starts;
  starts.reserve(rank.operators.size());
  for (const auto& op : rank.operators) starts.push_back(op.start);
  auto at = [&](double share) {
    auto place = starts.begin() + std::ptrdiff_t(share * double(starts.size() - 1));
    std::nth_element(starts.begin(), place, starts.end());
    return *place;
  };
  double low = at(0.2), middle = at(0.5), high = at(0.8);
  double span = kFar * (high - low);
  return span > 0 ? std::pair(middle - span, middle + span) : std::pair(-HUGE_VAL, HUGE_VAL);
}

void mend_operators(RawRank& rank, LeftOut& left) {
  auto& operators = rank.operators;
  std::erase_if(operators, [&](const RawOperator& op) {
    bool finite = is_finite(op.start, op.end);
    if (!finite) left.add("operators have times that are no numbers; they are left out", told(rank, op));
    if (finite && op.end < op.start)
      left.add("operators end before they start; they are left out", told(rank, op));
    return !finite || op.end < op.start;
  });
  auto [first, last] = believed(rank);
  std::erase_if(operators, [&, from = first, to = last](const RawOperator& op) {
    bool far = op.start < from || op.end > to;
    if (far) left.add("operators are far from all others in time; they are left out", told(rank, op));
    return far;
  });
  sort_by_start(operators);
  for (size_t n = 1; n < operators.size(); ++n) {
    auto &before = operators[n - 1], &op = operators[n];
    double overlap = before.end - op.start;
    if (overlap <= 0) continue;
    if (overlap > kRounding) {
      left.add("operators overlap the one behind them on their rank; they are taken to end where it begins",
               told(rank, before));
      before.end = op.start;
    } else {
      op.start = before.end;
      op.end = std::max(op.end, op.start);
    }
  }
}

void mend_intervals(RawRank& rank, LeftOut& left) {
  sort_by_start(rank.intervals);
  std::vector<RawInterval> kept;
  double free = -HUGE_VAL;  // behind the intervals so far
  size_t next = 0;
  for (auto& interval : rank.intervals) {
    double start = interval.start, end = interval.end;
    if (!is_finite(start, end) || end < start) {
      left.add("waits and transfers have no legal times; they are left out",
               concat("rank ", rank.rank, ", ", name(interval.spent), " at ", start, " s"));
      continue;
    }
    while (next < rank.operators.size() && rank.operators[next].end <= start) ++next;
    double from = std::max(start, free), to = end;
    if (next < rank.operators.size()) {
      const auto& op = rank.operators[next];
      if (op.start <= from)
        from = std::max(from, op.end);
      else
        to = std::min(to, op.start);
      // Behind the operator the next one may begin before the interval ends.
      if (op.start <= from && next + 1 < rank.operators.size())
        to = std::min(to, rank.operators[next + 1].start);
    }
    if (from - start > kRounding || end - to > kRounding)
      left.add("waits and transfers overlap operators or one another; they are cut there",
               concat("rank ", rank.rank, ", ", name(interval.spent), " at ", start, " s"));
    if (to < from) continue;
    interval.start = from;
    interval.end = to;
    free = to;
    kept.push_back(std::move(interval));
  }
  rank.intervals = std::move(kept);
}

void mend_memory(RawRank& rank, LeftOut& left) {
  auto& [times, bytes] = rank.memory;
  size_t count = std::min(times.size(), bytes.size());
  std::vector<std::pair<double, double>> points;
  for (size_t n = 0; n < count; ++n)
    if (is_finite(times[n], bytes[n]) && bytes[n] >= 0)
      points.emplace_back(times[n], bytes[n]);
    else
      left.add("memory counters are no numbers from 0; they are left out", concat("rank ", rank.rank));
  std::stable_sort(points.begin(), points.end(), [](auto a, auto b) { return a.first < b.first; });
  times.clear();
  bytes.clear();
  for (auto [time, held] : points) {
    times.push_back(time);
    bytes.push_back(held);
  }
}

}  // namespace

void mend_times(RawStep& raw, LeftOut& left) {
  for (auto& rank : raw.ranks) {
    mend_operators(rank, left);
    mend_intervals(rank, left);
    mend_memory(rank, left);
  }
}

}  // namespace bigmac
