#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bigmac/measured/fit.h"

namespace bigmac {

// The step's own operators again in the order in which they ran, each as soon as its row and its inputs
// allow: what the step takes when nothing but operators and `latency` (seconds a message between ranks) takes
// time. Starts at 0, in seconds.
Timeline replay(const MeasuredStep& step, Statistic statistic, double latency = 0);

// What another step would take with the measured operators. What may differ from the measured step:
//   base, arrangement, group, generator_unit, spread, order of microbatches: whatever the step allows
//   V                  k times the measured one: every stage is cut into k equal parts, in the model's order
//   M                  with encoders or generators the measured one
struct Replayed {
  Schedule schedule;
  Timeline timeline;
  // As was asked for, or mean: `each` needs every operator of the schedule to be a measured one, or a part of
  // it: the same M, no encoder or generator operators.
  Statistic statistic = Statistic::each;
  std::vector<std::string> notes{};
};
// Throws InvalidInput for a step that is not legal, of another P, with V no multiple of the measured one, or
// with other encoders or generators.
Replayed replay_as(const MeasuredStep& measured, const Step& step, Statistic statistic, double latency = 0);

// The measured step's shape as a step to change: P, V, M, encoders and generators with their items; base 1f1b
// or interleaved, nested where it has any.
Step step_like(const MeasuredStep& measured);

// The base whose order the measured backbone ran in, V, G and all; none where it is no base's.
std::optional<Step> base_of(const MeasuredStep& measured);

// Formulas that need no simulation, in seconds, from the mean forward f and backward b of a stage (chunk) on
// a microbatch. Encoders' and generators' time is added, spread evenly over the ranks.
//   even     (M * V + P - 1) * (f + b) with f and b over all stages: 1F1B and interleaved 1F1B
//            whose stages are all alike (Narayanan et al. 2021)
//   slowest  (M - 1) * max over the stages (f + b) + sum over the stages (f + b): 1F1B with V = 1 whose
//            slowest stage sets the pace; none with V > 1
struct ClosedForm {
  double even = 0;
  std::optional<double> slowest{};
};
ClosedForm closed_form(const MeasuredStep& step);

// predicted / measured - 1
double error_of(double predicted, const MeasuredStep& step);

// What the measured step's critical path consists of, in seconds: back from the operator that ended last,
// each time to what ended last of the operator before it in its row and of its inputs. (Where everything has
// gaps, explain.h would take each for a message.) Replays leave out all but the operators; what lies between
// them is host work, launches, exchanges and links. Needs clocks that can be compared.
struct PathParts {
  double operators = 0;
  double rows = 0;      // between operators of one rank
  double messages = 0;  // from the end of an operator to the start of one on another rank
  double ends = 0;      // before the first operator and behind the last, of length()
};
PathParts path_parts(const MeasuredStep& step);

}  // namespace bigmac
