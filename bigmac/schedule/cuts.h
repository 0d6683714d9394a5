#pragma once

#include <limits>
#include <span>
#include <vector>

#include "bigmac/schedule/costs.h"

namespace bigmac {

// The number of operators of each rank's row that stand before a cut.
using Cut = std::vector<int64_t>;

inline constexpr double kBeforeAll = -std::numeric_limits<double>::infinity();
inline constexpr double kBehindAll = std::numeric_limits<double>::infinity();

// The backbone-only timeline with nominal durations, asked for moments of groups of microbatches and for
// consistent cuts. Times are in units of the longest backbone operator.
class Cuts {
 public:
  // `base` must outlive it and hold backbone operators only.
  Cuts(const Schedule& base, const Costs& nominal);

  // Of microbatches [first, last):
  double first_forward_starts(int64_t first, int64_t last) const;  // on stage 0
  double last_forward_ends(int64_t first, int64_t last) const;     // on the last stage
  double last_backward_ends(int64_t first, int64_t last) const;    // B or I of stage 0

  // Each rank's operators that start before t. What a predecessor does ends before its successor starts, so
  // they are closed under predecessors.
  Cut at(double t) const;

  // A timeline in which sends leave at once may cut between a send and what must run before its receive is
  // posted. These move a cut, later or earlier, until it is consistent for blocking sends too.
  Cut grown(Cut cut) const;
  Cut shrunk(Cut cut) const;

  // Whether the cut is before the first forward of these microbatches on stage 0.
  bool before_first_forward(const Cut& cut, int64_t first, int64_t last) const;
  // The same for their first B (or I) on the last stage.
  bool is_before_first_backward(const Cut& cut, int64_t first, int64_t last) const;
  // A cut moved later may have passed what waits for these microbatches' generator: as much of it as does
  // not need that.
  Cut before_first_backward(Cut cut, int64_t first, int64_t last) const;

 private:
  // What the first p operators of a row need of another rank: that its first need[p] have run. Data and
  // posted receives alike.
  struct Neighbour {
    int rank;
    std::vector<int32_t> need;
  };

  double start(int rank, int64_t position) const;
  void find_needs();

  const Schedule& base_;
  Dependencies dependencies_;
  Durations durations_;
  std::vector<int32_t> positions_;  // in its row, by id
  std::vector<double> ends_;        // by id
  std::vector<double> starts_;      // by offset
  std::vector<std::vector<Neighbour>> neighbours_;
};

}  // namespace bigmac
