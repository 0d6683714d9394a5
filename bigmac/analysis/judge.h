#pragma once

#include <optional>
#include <vector>

#include "bigmac/analysis/step_model.h"

namespace bigmac {

// How the time before an operator divides, from when its row was free and its transfers were done.
struct WaitParts {
  double late = 0;     // until its input had been made
  double order = 0;    // from there on behind other messages
  double message = 0;  // on its way
  double own = 0;      // nothing to wait for
};
WaitParts parts_of(const StepModel& model, size_t i);

// Of the operators that a wait hung on in turn, the one that took most of it, and how much. None where what
// it waited for had ended before `from`.
struct Culprit {
  int32_t at = -1;  // operator of the model
  double time = 0;
};
Culprit culprit_of(const StepModel& model, size_t i, double from);

// By rank, in the timeline's unit from its start: `length` and 0 where there is none.
struct Ramp {
  double first_backward = 0, last_forward = 0;
};
std::vector<Ramp> ramps_of(const StepModel& model, double length);

// Until the last operator, and what lies behind it.
double recorded_length(const StepModel& model);

// The operator before it on the path: what it waited for last.
int32_t before_on_path(const StepModel& model, size_t i);

}  // namespace bigmac
