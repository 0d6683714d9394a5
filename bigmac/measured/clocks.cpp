#include "bigmac/measured/clocks.h"

#include <algorithm>
#include <limits>

#include "bigmac/schedule/dependencies.h"

namespace bigmac {
namespace {

constexpr double kFar = std::numeric_limits<double>::infinity();

// gaps[from * P + to]: of all that `to` needs of `from`, the smallest start - end.
using Gaps = std::vector<double>;

// The largest x[r] with x[0] = 0 and x[a] - x[b] <= gaps[a * P + b] (Bellman and Ford): the shortest ways
// from 0. `backwards` turns every edge, which gives minus the smallest. Empty where there are none.
std::vector<double> extreme(const Gaps& gaps, size_t ranks, bool backwards) {
  std::vector<double> x(ranks, kFar);
  x[0] = 0;
  bool changed = true;
  for (size_t round = 0; round <= ranks && changed; ++round) {
    changed = false;
    for (size_t a = 0; a < ranks; ++a)
      for (size_t b = 0; b < ranks; ++b) {
        double gap = backwards ? gaps[b * ranks + a] : gaps[a * ranks + b];
        if (x[b] + gap >= x[a] - 1e-15) continue;
        x[a] = x[b] + gap;
        changed = true;
      }
  }
  return changed ? std::vector<double>{} : x;
}

std::optional<std::vector<double>> offsets_for(const Gaps& gaps, size_t ranks) {
  auto most = extreme(gaps, ranks, false), least = extreme(gaps, ranks, true);
  if (most.empty() || least.empty()) return {};
  std::vector<double> middle(ranks, 0);
  for (size_t r = 0; r < ranks; ++r) {
    // A rank may be bounded on one side only, or not at all.
    if (most[r] < kFar && least[r] < kFar) middle[r] = (most[r] - least[r]) / 2;
    if (most[r] < kFar && least[r] == kFar) middle[r] = std::min(most[r], 0.0);
    if (most[r] == kFar && least[r] < kFar) middle[r] = std::max(-least[r], 0.0);
  }
  for (size_t a = 0; a < ranks; ++a)
    for (size_t b = 0; b < ranks; ++b)
      if (middle[a] - middle[b] > gaps[a * ranks + b] + 1e-9) return {};
  return middle;
}

}  // namespace

Clocks compare_clocks(const MeasuredStep& step, double tolerance) {
  Dependencies dependencies(step.schedule);
  auto ranks = step.timeline.rows.size();
  std::vector<double> ends(size_t(dependencies.count()), -kFar);
  for (size_t r = 0; r < ranks; ++r)
    for (const auto& slice : step.timeline.rows[r].operators)
      ends[size_t(dependencies.of(int(r), slice.op))] = slice.end;
  Clocks clocks;
  clocks.least_gap = kFar;
  Gaps gaps(ranks * ranks, kFar);
  for (size_t r = 0; r < ranks; ++r)
    for (const auto& slice : step.timeline.rows[r].operators)
      dependencies.for_each_predecessor(int(r), slice.op, [&](int64_t id, int from) {
        if (from == int(r) || ends[size_t(id)] == -kFar) return;
        double gap = slice.start - ends[size_t(id)];
        ++clocks.messages;
        clocks.conflicts += gap < -tolerance;
        double& least = gaps[size_t(from) * ranks + r];
        least = std::min(least, gap);
        if (gap >= clocks.least_gap) return;
        clocks.least_gap = gap;
        clocks.from = {from, dependencies.at(id).op};
        clocks.to = {int(r), slice.op};
      });
  if (clocks.messages == 0) clocks.least_gap = 0;
  if (clocks.conflicts > 0) clocks.offsets = offsets_for(gaps, ranks);
  return clocks;
}

void shift_rows(MeasuredStep& step, const std::vector<double>& offsets) {
  for (size_t r = 0; r < step.timeline.rows.size(); ++r) {
    auto move = [&](auto& span) {
      span.start += offsets[r];
      span.end += offsets[r];
    };
    std::for_each(step.timeline.rows[r].operators.begin(), step.timeline.rows[r].operators.end(), move);
    std::for_each(step.timeline.rows[r].intervals.begin(), step.timeline.rows[r].intervals.end(), move);
    if (r < step.memory.size())
      for (double& time : step.memory[r].times) time += offsets[r];
  }
  set_ends(step.timeline);
}

void set_ends(Timeline& timeline) {
  double first = kFar, last = -kFar;
  auto take = [&](const auto& span) {
    first = std::min(first, span.start);
    last = std::max(last, span.end);
  };
  for (const auto& row : timeline.rows) {
    std::for_each(row.operators.begin(), row.operators.end(), take);
    std::for_each(row.intervals.begin(), row.intervals.end(), take);
  }
  timeline.start = first < kFar ? first : 0;
  timeline.end = first < kFar ? last : 0;
}

}  // namespace bigmac
