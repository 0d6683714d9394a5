#pragma once

#include <vector>

#include "bigmac/schedule/costs.h"
#include "bigmac/schedule/table.h"

namespace bigmac {

// A backbone's own table: when its operators run with nominal costs, and what must have run before each.
// Operators are named by their offset in the table.
struct BackboneTimeline {
  BackboneTimeline(Schedule base, const Costs& nominal);

  static constexpr int32_t kNone = -1;

  // What must have run before an operator, kNone for what there is not.
  struct Before {
    int32_t in_row = kNone;
    int32_t sender = kNone;
    // With blocking sends (sends.h): what runs last, on another rank, before the receive of what the one in
    // the row sends stands posted.
    int32_t post = kNone;
  };

  Schedule table;
  std::vector<double> starts, ends;
  std::vector<int32_t> receivers;  // the backbone operator that takes its output, kNone if none does
  std::vector<Before> before;

  // By microbatch: stage 0's F and B (or I), the last stage's F and B (or I).
  std::vector<int32_t> first_forward, first_backward, last_forward, last_backward;
  int first_rank = 0, last_rank = 0;  // of those stages

  std::vector<double> work;  // by rank
  double length = 0;

 private:
  void run(const Dependencies& dependencies, const Costs& nominal);
  void find_links(const Dependencies& dependencies);
};

}  // namespace bigmac
