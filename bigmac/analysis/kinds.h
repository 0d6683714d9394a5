#pragma once

#include <string>
#include <vector>

#include "bigmac/analysis/step_model.h"

namespace bigmac {

// Operators that should take alike: those of a stage and phase, or of a module and phase by the size of their
// items.
struct Kinds {
  std::vector<int32_t> of;     // by operator of the model
  std::vector<int32_t> stage;  // by operator; -1 for an encoder's or generator's
  std::vector<double> size;    // by operator: of its items; 1 of the backbone
  std::vector<double> median;  // by kind, of an operator's time / size
  std::vector<int32_t> rank_of_stage;

  double expected(size_t i) const { return median[size_t(of[i])] * size[i]; }
};
Kinds kinds_of(const Schedule& schedule, const StepModel& model);

// How a rank compares with the others, as ratios of medians.
struct RankRatios {
  std::vector<double> stages;   // its stages' time (all phases) / the median of other ranks' stages
  std::vector<double> modules;  // its time an item of size 1 / that of the other ranks, by module and phase
  double least() const;
  double most() const;
};
std::vector<RankRatios> rank_ratios(const Schedule& schedule, const StepModel& model, const Kinds& kinds);

// By stage: mean time of its operators on a microbatch, all phases together.
std::vector<double> stage_times(const StepModel& model, const Kinds& kinds, int64_t microbatches);

}  // namespace bigmac
