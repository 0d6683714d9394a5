#pragma once

#include <vector>

#include "bigmac/schedule/operator.h"

namespace bigmac {

// An operator that ran.
struct Slice {
  Operator op;
  double start = 0;
  double end = 0;
};

// Time a rank spent between operators.
enum class Spent : uint8_t {
  transfer,  // on moving bytes: packing and posting messages, reducing gradients
  wait,      // blocked on a message that another rank has yet to send
};

struct Interval {
  Spent spent = Spent::wait;
  int peer = -1;  // the other rank; -1 for all
  Operator op;    // the operator the time was spent for
  double start = 0;
  double end = 0;
};

// What happened, or would happen, in one step: simulated or measured, in one unit of time (seconds if
// measured).
struct Timeline {
  struct Row {
    std::vector<Slice> operators;     // in order of time, not overlapping
    std::vector<Interval> intervals;  // likewise, between the operators; empty where simulated
  };
  double start = 0;
  double end = 0;
  std::vector<Row> rows;  // by rank

  double length() const { return end - start; }
};

// How one rank's share of the step divides. The four parts add up to the timeline's length: what is neither
// inside an operator nor in an interval is idle. A simulated timeline has no intervals, so its waits are
// idle.
struct RankTime {
  double busy = 0;  // inside operators
  double transfer = 0;
  double wait = 0;
  double idle = 0;
};
std::vector<RankTime> rank_times(const Timeline& timeline);

// A bubble's two definitions, over all ranks. Idle is everything outside operators.
double idle_over_total(const Timeline& timeline);  // idle / (P * length)
double idle_over_busy(const Timeline& timeline);   // idle / busy

}  // namespace bigmac
