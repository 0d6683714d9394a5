#include "bigmac/measured/recorded.h"

#include <algorithm>

#include "bigmac/common/error.h"
#include "bigmac/measured/clocks.h"
#include "bigmac/measured/replay.h"
#include "bigmac/schedule/dependencies.h"
#include "bigmac/schedule/walk.h"

namespace bigmac {
namespace {

// As replay() with every operator's own time, of a step that lacks operators: nothing waits for these. Empty
// where the operators wait for one another in a circle.
std::optional<Timeline> replay_what_is_there(const MeasuredStep& step) {
  Dependencies dependencies(step.schedule);
  constexpr double kNotThere = -2, kNotRun = -1;
  std::vector<double> ends(size_t(dependencies.count()), kNotThere);
  for (size_t r = 0; r < step.timeline.rows.size(); ++r)
    for (const auto& slice : step.timeline.rows[r].operators)
      ends[size_t(dependencies.of(int(r), slice.op))] = kNotRun;
  Timeline timeline;
  timeline.rows.resize(step.timeline.rows.size());
  walk(step.schedule, [&](int rank, int64_t position, const Operator& op) {
    auto& row = timeline.rows[size_t(rank)].operators;
    double start = row.empty() ? 0 : row.back().end;
    bool ready = true;
    dependencies.for_each_predecessor(rank, op, [&](int64_t id, int) {
      ready &= ends[size_t(id)] != kNotRun;
      start = std::max(start, ends[size_t(id)]);
    });
    if (!ready) return false;
    const auto& slice = step.timeline.rows[size_t(rank)].operators[size_t(position)];
    row.push_back({op, start, start + slice.end - slice.start});
    ends[size_t(dependencies.of(rank, op))] = row.back().end;
    return true;
  });
  size_t count = 0;
  for (const auto& row : timeline.rows) count += row.operators.size();
  if (count != step.schedule.operators.size()) return {};
  set_ends(timeline);
  return timeline;
}

void use_replay(const MeasuredStep& step, Recording& recording) {
  auto timeline = step.missing.empty() ? replay(step, Statistic::each) : replay_what_is_there(step);
  if (!timeline) {
    recording.notes.emplace_back(
        "the ranks' clocks cannot be compared: each rank is shown on its own, and waits for others are not "
        "to be believed");
    return;
  }
  recording.timeline = std::move(*timeline);
  recording.notes.push_back(
      concat("the ranks' clocks cannot be compared: the timeline is a replay of the measured operators (",
             recording.timeline.length(), " s; the longest rank took ", step.length(),
             " s), so messages and gaps are not in it"));
  // Peaks are all that is left of memory.
  auto peaks = peak_memory(step);
  recording.memory.clear();
  for (double bytes : peaks) recording.memory.push_back({{recording.timeline.start}, {bytes}});
}

}  // namespace

Recording recording_of(const MeasuredStep& step, const std::string& source) {
  Recording recording{.name = step.name.empty() ? source : concat(source, ", step ", step.name),
                      .schedule = step.schedule,
                      .timeline = step.timeline,
                      .measured = true,
                      .memory = step.memory,
                      .memory_limit = step.memory_limit,
                      .missing = step.missing};
  if (!compare_clocks(step).comparable()) {
    use_replay(step, recording);
  } else {
    auto& timeline = recording.timeline;
    timeline.end = std::max(timeline.end, timeline.start + step.length());
  }
  for (const auto& part : step.missing) recording.notes.push_back("the step is not whole: " + part);
  return recording;
}

Recording recorded_step(const std::vector<std::string>& paths, ReadOptions options,
                        const std::optional<std::string>& name) {
  options.incomplete = true;
  auto measurement = read_measured(paths, options);
  const auto& step = name ? step_named(measurement, *name) : typical_step(measurement);
  auto recording = recording_of(step, measurement.source);
  recording.notes.insert(recording.notes.begin(), measurement.notes.begin(), measurement.notes.end());
  auto whole = std::count_if(measurement.steps.begin(), measurement.steps.end(),
                             [](const auto& each) { return each.missing.empty(); });
  auto count = measurement.steps.size();
  if (count > 1 && !name)
    recording.notes.push_back(
        whole == 0 ? concat("none of ", count, " steps is whole; the one with the most operators is taken")
                   : concat("of ", count, " steps the one with the median length behind the first is taken"));
  if (count > 1 && whole > 0 && whole < int64_t(count))
    recording.notes.push_back(
        concat(int64_t(count) - whole, " of ", count, " steps are not whole and not considered"));
  return recording;
}

}  // namespace bigmac
