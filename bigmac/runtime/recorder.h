#pragma once

#include <chrono>
#include <utility>

#include "bigmac/timeline/timeline.h"

namespace bigmac {

// Seconds on the clock that all ranks of one machine share.
inline double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Collects one rank's row of a timeline while it runs.
class Recorder {
 public:
  void begin_operator(const Operator& op) { op_ = op; }
  // Time inside the model, for the current operator.
  void computed(double start, double end) { row_.operators.push_back({op_, start, end}); }
  // Time around the model, for the current operator.
  void spent(Spent spent, int peer, double start, double end) {
    row_.intervals.push_back({spent, peer, op_, start, end});
  }
  Timeline::Row take() { return std::exchange(row_, {}); }

 private:
  Operator op_;
  Timeline::Row row_;
};

}  // namespace bigmac
