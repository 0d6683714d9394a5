#pragma once

#include <vector>

#include "bigmac/schedule/dependencies.h"

namespace bigmac {

// What an encoder's or generator's item of size 1 takes; other items in proportion to their size. An operator
// takes the sum of its items, but at least `least_*`: where parameters are sharded, gathering them beside
// computing takes as long for one item as for many.
struct ModuleCosts {
  double forward = 0;
  double backward = 0;
  double least_forward = 0;
  double least_backward = 0;
};

// What operators take, as constants per module and stage, in one unit of time throughout.
struct Costs {
  std::vector<double> forward{1.0};    // backbone, of one stage: one value for all stages, or one a stage
  std::vector<double> backward{2.0};   // likewise, whole
  std::vector<double> weight{};        // likewise, the weights' part of the backward; empty: half of it
  std::vector<ModuleCosts> modules{};  // by Step::modules; one value stands for all, empty: nothing
  double latency = 0;                  // of a message between two ranks

  ModuleCosts of_module(size_t n) const {
    return modules.empty() ? ModuleCosts{} : modules[modules.size() == 1 ? 0 : n];
  }
};

// Of the step's module n: as given, but a frozen encoder's backward takes nothing.
ModuleCosts costs_of_module(const Step& step, const Costs& costs, size_t n);

// Costs resolved for the operators of one table. Throws InvalidInput for negative or non-finite costs, for
// lists that are neither one value nor one a stage (or module), and for a weight part above the backward.
class Durations {
 public:
  Durations(const Step& step, const Shares& shares, const Costs& costs);
  Durations(const Schedule& schedule, const Costs& costs)
      : Durations(schedule.step, schedule.shares, costs) {}

  double operator()(int rank, const Operator& op) const {
    if (op.module != Module::backbone) return share_[op.phase == Phase::backward][op.index];
    return backbone_[size_t(op.phase)][rank * chunks_ + op.chunk];
  }
  double latency() const { return latency_; }
  double longest_backbone() const { return longest_backbone_; }

 private:
  int64_t chunks_;
  std::vector<double> backbone_[4];  // by phase, then rank and chunk
  std::vector<double> share_[2];     // first operator, second operator
  double latency_;
  double longest_backbone_ = 0;
};

}  // namespace bigmac
