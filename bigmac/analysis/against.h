#pragma once

#include <string>

#include "bigmac/analysis/step_model.h"

namespace bigmac {

// Why a step takes longer (or shorter) than another of the same shape, in the timeline's unit. The other's
// operator times are put into this step's table first, then its messages, then its time between operators;
// what is left is the order of the operators. So the parts add up to step - other.
struct StepGap {
  std::string against;  // "its own table, every operator as the mean of its stage, messages free"
  double step = 0, other = 0;
  double operators = 0;  // what operators take
  double links = 0;      // from the end of an operator to the start on another rank
  double between = 0;    // between operators of one rank
  double order = 0;      // the order of operators in the rows
  double ends = 0;       // behind the last operator
  double difference() const { return step - other; }
};

// Throws InvalidInput for steps of different P, stages or M, or with other encoders and generators.
StepGap gap_between(const Recording& recording, const StepModel& model, const Recording& other);

// Against the simulation of its own schedule, or of another for the same step, with the mean cost of every
// stage and module and free messages.
StepGap gap_to_simulated(const Recording& recording, const StepModel& model);
StepGap gap_to_simulated(const Recording& recording, const StepModel& model, const Schedule& other,
                         const std::string& name);

}  // namespace bigmac
