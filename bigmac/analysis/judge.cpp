#include "bigmac/analysis/judge.h"

#include <algorithm>

namespace bigmac {

int32_t before_on_path(const StepModel& model, size_t i) {
  return model.by_input[i] ? model.last_input[i] : model.before[i];
}

WaitParts parts_of(const StepModel& model, size_t i) {
  double free = model.free_at(i) + model.transfer[i], start = model.slices[i].start;
  WaitParts parts;
  if (start <= free) return parts;
  if (!model.by_input[i]) {
    parts.own = start - free;
    return parts;
  }
  double made = std::clamp(model.slices[size_t(model.last_input[i])].end, free, start);
  parts.late = made - free;
  parts.order = std::min(model.order[i], start - made);
  parts.message = start - made - parts.order;
  return parts;
}

Culprit culprit_of(const StepModel& model, size_t i, double from) {
  constexpr int kLongestChain = 4096;
  Culprit culprit;
  auto at = model.last_input[i];
  for (int steps = 0; at >= 0 && steps < kLongestChain; ++steps) {
    const Slice& slice = model.slices[size_t(at)];
    if (slice.end <= from) break;
    double time = slice.end - std::max(slice.start, from);
    if (time > culprit.time) culprit = {at, time};
    at = before_on_path(model, size_t(at));
  }
  return culprit;
}

std::vector<Ramp> ramps_of(const StepModel& model, double length) {
  std::vector<Ramp> ramps(size_t(model.ranks), {length, 0});
  for (size_t i = 0; i < model.count(); ++i) {
    const auto& [op, start, end] = model.slices[i];
    if (op.module != Module::backbone) continue;
    auto& ramp = ramps[size_t(model.rank[i])];
    if (op.phase == Phase::forward)
      ramp.last_forward = std::max(ramp.last_forward, end);
    else
      ramp.first_backward = std::min(ramp.first_backward, start);
  }
  return ramps;
}

double recorded_length(const StepModel& model) {
  double last = 0;
  for (const auto& slice : model.slices) last = std::max(last, slice.end);
  return last + model.behind_last;
}

}  // namespace bigmac
