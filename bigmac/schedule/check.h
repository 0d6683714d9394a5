#pragma once

#include <string>
#include <vector>

#include "bigmac/schedule/sends.h"
#include "bigmac/schedule/table.h"

namespace bigmac {

// What is wrong with a table; empty if nothing is. In order: every operator of the step once, on its own
// rank, and no other; units that hold every encoder and generator operator at their places and cut the table
// consistently; last, no deadlock, with the ranks and operators that wait for one another.
std::vector<std::string> check(const Schedule& schedule, Sends sends = Sends::buffered);

// The most that is held at once on a rank, counted along its row.
struct PeakLive {
  int64_t encoder_units = 0;       // encoder forwards whose backward has not run
  int64_t generator_units = 0;     // generator operators
  int64_t backbone_in_flight = 0;  // chunk-forwards whose backward has not run

  bool operator==(const PeakLive&) const = default;
};
std::vector<PeakLive> peak_live(const Schedule& schedule);

}  // namespace bigmac
