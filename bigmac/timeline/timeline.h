#pragma once

#include <string_view>
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
  wait,      // blocked on a message that another rank has yet to send, or that is on its way
  order,     // blocked on a message that would be there, had it not stood behind others in its queue
};
std::string_view name(Spent spent);  // transfer, wait, order

struct Interval {
  Spent spent = Spent::wait;
  int peer = -1;  // the other rank; -1 for several or all
  Operator op;    // the operator the time was spent for
  double start = 0;
  double end = 0;
  int64_t bytes = 0;   // of the message; 0: not known
  bool sends = false;  // of a transfer: it left this rank
};

// What happened, or would happen, in one step: simulated or measured, in one unit of time (seconds if
// measured).
struct Timeline {
  struct Row {
    std::vector<Slice> operators;     // in order of time, not overlapping
    std::vector<Interval> intervals;  // likewise, between the operators; empty where simulated without links
  };
  double start = 0;
  double end = 0;
  std::vector<Row> rows;  // by rank

  double length() const { return end - start; }
};

// How one rank's share of the step divides. The five parts add up to the timeline's length: what is neither
// inside an operator nor in an interval is idle. A timeline that was simulated without links has no
// intervals, so its waits are idle.
struct RankTime {
  double busy = 0;  // inside operators
  double transfer = 0;
  double order = 0;
  double wait = 0;
  double idle = 0;

  // The rank had nothing to do: what it needs had not been made, or was on its way.
  double bubble() const { return wait + idle; }
};
std::vector<RankTime> rank_times(const Timeline& timeline);

// The same over all ranks, as shares of P * length. They add up to 1 (all are 0 for a step of no length).
struct TimeShares {
  double busy = 0;
  double transfer = 0;  // ranks moved bytes
  double order = 0;     // what ranks needed was made in time, and stood behind something else
  double bubble = 0;    // ranks had nothing to do
};
TimeShares time_shares(const Timeline& timeline);

// Without the rows that have no operator: ranks that nothing is known of, where a measured step is not whole.
Timeline without_empty_rows(const Timeline& timeline);

// Idle time's two definitions, over all ranks. Idle is everything outside operators, transfers and waits for
// the order of messages included: where there are any, time_shares tells them from the bubble.
double idle_over_total(const Timeline& timeline);  // idle / (P * length)
double idle_over_busy(const Timeline& timeline);   // idle / busy

}  // namespace bigmac
