#pragma once

#include <optional>
#include <vector>

#include "bigmac/measured/measured_step.h"

namespace bigmac {

// Whether the ranks' clocks can be compared: an operator cannot start before what it needs from another rank
// has ended.
struct Clocks {
  int64_t messages = 0;   // dependencies between ranks
  int64_t conflicts = 0;  // of them, those that end on one clock after they were needed on the other
  double least_gap = 0;   // seconds between the end of one and the start of the other, the smallest
  struct End {
    int rank = 0;
    Operator op;
  } from, to;  // where it is the smallest
  // Where there are conflicts: seconds to add to each rank's times (rank 0: 0) so that there is none; none
  // where no offsets do that, as with clocks that drift. They are the middle of what is possible.
  std::optional<std::vector<double>> offsets{};

  bool comparable() const { return conflicts == 0; }
};

// Overlaps up to `tolerance` seconds are none. What a step lacks (MeasuredStep::missing) is not compared.
Clocks compare_clocks(const MeasuredStep& step, double tolerance = 1e-6);

// Adds them to the rows' times and their memory's, and sets the timeline's start and end.
void shift_rows(MeasuredStep& step, const std::vector<double>& offsets);

// From the first operator or interval of all rows to the last; 0 to 0 where there is none.
void set_ends(Timeline& timeline);

}  // namespace bigmac
