#pragma once

#include <limits>
#include <span>
#include <vector>

#include "bigmac/schedule/costs.h"
#include "bigmac/schedule/table.h"

namespace bigmac {

// The number of operators of each rank's row that stand before a cut.
using Cut = std::vector<int64_t>;

inline constexpr double kBeforeAll = -std::numeric_limits<double>::infinity();
inline constexpr double kBehindAll = std::numeric_limits<double>::infinity();

// The backbone-only timeline with nominal durations, asked for moments of units and for consistent cuts.
// Times are in units of the longest backbone operator.
class Cuts {
 public:
  // `base` must outlive it and hold backbone operators only.
  Cuts(const Schedule& base, const Costs& nominal);

  double first_forward(int64_t unit) const;       // when F(0, m) of its first microbatch starts
  double last_forward_ends(int64_t unit) const;   // F(last stage, m) of its last one
  double last_backward_ends(int64_t unit) const;  // B(0, m) of its last one
  double longest() const { return durations_.longest_backbone(); }

  // Each rank's operators that start before t. What a predecessor does ends before its successor starts, so
  // they are closed under predecessors.
  Cut at(double t) const;

  // A timeline in which sends leave at once may cut between a send and what must run before its receive is
  // posted. These move a cut, later or earlier, until it is consistent for blocking sends too.
  Cut grown(Cut cut) const;
  Cut shrunk(Cut cut) const;

  bool before_first_forward(const Cut& cut, int64_t unit) const;
  // A cut moved later may have passed what waits for the unit; as much of it as does not need that.
  Cut before_first_backward(Cut cut, int64_t unit) const;

 private:
  int64_t last(int64_t unit) const { return (unit + 1) * base_.step.ranks - 1; }
  double start(int rank, std::span<const Operator> row, int64_t position) const;
  template <class Need>
  void for_each_need(int rank, int64_t count, Need&& need) const;

  const Schedule& base_;
  Ids ids_;
  Durations durations_;
  std::vector<int32_t> positions_;  // in its row, by id
  std::vector<double> ends_;        // by id
};

}  // namespace bigmac
