#pragma once

#include <vector>

#include "bigmac/schedule/filling.h"

namespace bigmac {

// The items' work as a fluid, sampled at equal distances of the backbone-only timeline. Work is summed over
// the ranks.
struct Flow {
  explicit Flow(const Filling& filling);

  double width = 0;              // between two samples
  std::vector<double> idle;      // the ranks' time without backbone work up to a moment
  std::vector<double> needed;    // item work that the backbone, and memory, need done by then
  std::vector<double> possible;  // item work that could be done by then: inputs are there, memory too
  double most = 0;               // no stretch is longer
};

// How much longer than in the backbone-only timeline it takes until a moment, so that the items' work has
// room:
//
//   S(t) = the most, over moments up to t, of (work wanted by then - idle) / P
//   work wanted = needed + eagerness * (possible - needed)
//
// It is the same for all ranks and never falls. So an operator at moment t that is put off until t + S(t) is
// what nesting does, too: inserting something at a consistent cut.
class Stretch {
 public:
  Stretch(const Flow& flow, int64_t ranks, double eagerness);
  double operator()(double moment) const;

 private:
  double width_;
  std::vector<double> values_;
};

}  // namespace bigmac
