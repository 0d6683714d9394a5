#include "bigmac/simulate/memory_scan.h"

#include <limits>

namespace bigmac {

void MemoryScan::gather(int rank) {
  const auto& row = holdings_.row(rank);
  grows_.assign(row.size(), 0.0);
  shrinks_.assign(row.size(), 0.0);
  for (auto& list : arrivals_) list.clear();
  taken_ = {};
  for (size_t p = 0; p < row.size(); ++p) {
    double& shrinks = shrinks_[p];
    holdings_.let_go(
        rank, row[p].op,
        [&](Held, int64_t, double bytes, int64_t, int64_t id) {
          grows_[holdings_.position_of(id)] += bytes;
          shrinks += bytes;
        },
        [&](Held held, int64_t, double bytes, int64_t, int64_t id) {
          auto kind = held == Held::received ? kForward : held == Held::received_back ? kBackward : kShares;
          arrivals_[kind].push_back({holdings_.end_of(id), bytes});
          shrinks += bytes;
        });
  }
  auto earlier = [](const Arrival& a, const Arrival& b) { return a.time < b.time; };
  for (auto& list : arrivals_) {
    // Most rows take messages in the order in which they are made.
    if (!std::is_sorted(list.begin(), list.end(), earlier)) std::sort(list.begin(), list.end(), earlier);
  }
  find_next();
}

void MemoryScan::find_next() {
  next_ = std::numeric_limits<double>::infinity();
  for (int kind = 0; kind < kKinds; ++kind) {
    if (taken_[kind] == arrivals_[kind].size()) continue;
    double time = arrivals_[kind][taken_[kind]].time;
    if (time >= next_) continue;
    next_ = time;
    next_kind_ = kind;
  }
}

double MemoryScan::take() {
  double bytes = arrivals_[next_kind_][taken_[next_kind_]++].bytes;
  find_next();
  return bytes;
}

}  // namespace bigmac
