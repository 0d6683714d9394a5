#pragma once

#include <algorithm>
#include <array>

#include "bigmac/simulate/holdings.h"

namespace bigmac {

// Goes through a rank's step in order of time. Keeps its lists from rank to rank.
class MemoryScan {
 public:
  explicit MemoryScan(const Holdings& holdings) : holdings_(holdings) {}

  // Calls visit(time, bytes) for the start of the step and each later moment at which something changes, with
  // the bytes that the rank holds from then on.
  template <class Visit>
  void run(int rank, Visit&& visit) {
    gather(rank);
    double time = holdings_.start(), bytes = holdings_.constant(rank);
    auto go_to = [&](double next) {
      if (next == time) return;
      visit(time, bytes);
      time = next;
    };
    auto receive_until = [&](double until) {
      while (next_ <= until) {
        go_to(next_);
        bytes += take();
      }
    };
    const auto& row = holdings_.row(rank);
    for (size_t p = 0; p < row.size(); ++p) {
      receive_until(row[p].start);
      if (grows_[p] > 0) {
        go_to(row[p].start);
        bytes += grows_[p];
      }
      receive_until(row[p].end);
      if (shrinks_[p] > 0) {
        go_to(row[p].end);
        bytes -= shrinks_[p];
      }
    }
    visit(time, bytes);
  }

 private:
  struct Arrival {
    double time;
    double bytes;
  };
  enum Kind { kForward, kBackward, kShares, kKinds };

  void gather(int rank);
  double take();
  void find_next();

  const Holdings& holdings_;
  std::vector<double> grows_, shrinks_;  // by position: at the operator's start, at its end
  std::array<std::vector<Arrival>, kKinds> arrivals_;
  std::array<size_t, kKinds> taken_{};
  double next_ = 0;  // time of the next arrival
  int next_kind_ = 0;
};

}  // namespace bigmac
