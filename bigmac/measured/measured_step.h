#pragma once

#include <string>
#include <vector>

#include "bigmac/schedule/table.h"
#include "bigmac/timeline/recording.h"

namespace bigmac {

// One training step as it was measured, whatever wrote it down.
struct MeasuredStep {
  std::string name;   // "7" of iteration 7; empty where a file holds one step only
  Schedule schedule;  // every rank's operators in the order in which it ran them; base custom, no units
  Timeline timeline;  // the same operators, in seconds, each row on its own rank's clock (clocks.h), with
                      // waits and transfers where they were recorded
  std::vector<double> rank_steps;      // by rank: how long the step took there, seconds
  std::vector<MemoryCurve> memory{};   // by rank, on its clock; one point where only the peak is known, none
                                       // where nothing is; empty where it was not measured at all
  double memory_limit = 0;             // bytes of a rank; 0: not known
  std::vector<std::string> missing{};  // of a whole step, for people; then nothing can be fitted or replayed

  // The largest over the ranks.
  double length() const;
};

// What was read: steps of one shape, in the order in which they ran.
struct Measurement {
  std::string source;  // "Primus pipeline dump runs/pp8"
  std::vector<MeasuredStep> steps;
  std::vector<std::string> notes{};  // what was assumed or left out
};

// By rank: bytes at the peak; empty unless it was measured on every rank.
std::vector<double> peak_memory(const MeasuredStep& step);

// Throws InvalidInput naming what is missing of the step.
void check_whole(const MeasuredStep& step);

// Idle is everything outside operators: 1 - sum of operators / (P * length()). Needs no common clock.
double idle_over_total(const MeasuredStep& step);

// The steps behind the warm-up: all but the first, or the one there is.
std::vector<const MeasuredStep*> behind_warmup(const Measurement& measurement);

// Of those, the one with the median length (of two in the middle the shorter) among those that are whole;
// where none is, the one with the most operators.
const MeasuredStep& typical_step(const Measurement& measurement);

// By its name. Throws InvalidInput naming the steps there are.
const MeasuredStep& step_named(const Measurement& measurement, const std::string& name);

}  // namespace bigmac
