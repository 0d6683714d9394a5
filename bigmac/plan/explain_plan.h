#pragma once

#include <string>
#include <vector>

#include "bigmac/plan/estimator.h"
#include "bigmac/plan/search.h"

namespace bigmac {

// Where the seconds of a step go, on the mean of its pipeline ranks. They add up to the step.
struct StepParts {
  double backbone = 0;   // its layers, forward and backward
  double recompute = 0;  // of the backbone: what is computed again
  double traffic = 0;    // of the backbone: waiting for tensor and expert parallel traffic
  double modules = 0;    // encoders and generators, all of it
  double bubble = 0;
  double transfer = 0;
  double order = 0;
  double sync = 0;
  double optimizer = 0;
};
StepParts step_parts(const Workload& workload, const Outcome& outcome);

// What another value of one choice would bring, the others left as they are.
struct Alternative {
  std::string value;               // "nested", "zb-v VPP2", "4"
  std::optional<Outcome> outcome;  // the shortest that fits; where none fits, the one that holds least
  std::string why_not;             // where no configuration is legal: Refusal::kind
};

// One of a configuration's choices.
struct Choice {
  std::string name;  // "schedule", "base", "TP", "recompute backbone"
  std::string value;
  std::vector<Alternative> others;
};

// All choices of a configuration that the workload's search leaves something to choose of. Data parallelism
// follows from the others; another base comes with the best of its numbers of chunks; disttrain and other
// schedules are no alternatives of one another, since their GPUs differ.
std::vector<Choice> alternatives(Estimator& estimator, const Configuration& configuration);

// The choices of a plan's best configuration. A search makes few passes of nested-fill, these make all: where
// one of the alternatives turns out to be shorter than the best, it becomes the plan's best, and its
// alternatives are looked at.
std::vector<Choice> polish(Plan& plan, Estimator& estimator);

}  // namespace bigmac
