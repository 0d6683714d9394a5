#pragma once

#include <string>
#include <vector>

#include "bigmac/schedule/sends.h"
#include "bigmac/schedule/table.h"

namespace bigmac {

// What is wrong with a table; empty if nothing is. In order: rows, shares and items that fit the step; every
// operator of the step once, on its own rank, and no other; where it has units, all encoder and generator
// operators at their places, and units that cut the table consistently; last, no deadlock, with the ranks and
// operators that wait for one another.
std::vector<std::string> check(const Schedule& schedule, Sends sends = Sends::buffered);

// The most that is held at once on a rank, counted along its row.
struct PeakLive {
  // By module, in units: the size of the items whose forward has run and whose backward has not, over the
  // largest share that a rank has of a unit (spread.h). A generator's operator holds its own share only, and
  // so does a frozen encoder's forward.
  std::vector<double> units;
  int64_t in_flight = 0;  // chunk-forwards whose backward (or weight gradient, where it is split) has not run

  bool operator==(const PeakLive&) const = default;
};
std::vector<PeakLive> peak_live(const Schedule& schedule);

}  // namespace bigmac
