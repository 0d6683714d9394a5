#include "bigmac/analysis/recorded.h"

#include <algorithm>
#include <filesystem>
#include <future>
#include <map>

#include "bigmac/analysis/own_events.h"
#include "bigmac/common/error.h"
#include "bigmac/measured/clocks.h"
#include "bigmac/measured/replay.h"

namespace bigmac {
namespace {

constexpr double kMicrosecond = 1e-6;

// The files that may be traces; none of a folder of Primus dumps.
std::vector<std::string> trace_files(const std::vector<std::string>& paths) {
  namespace fs = std::filesystem;
  std::error_code error;
  if (paths.size() != 1 || !fs::is_directory(paths[0], error)) return paths;
  std::vector<std::string> files;
  for (fs::directory_iterator at(paths[0], error), end; !error && at != end; at.increment(error)) {
    auto name = at->path().filename().string();
    if (name.starts_with("pp_rank_")) return {};
    if (name != "config.json" && (name.ends_with(".json") || name.ends_with(".json.gz")))
      files.push_back(at->path().string());
  }
  return files;
}

void add_events(Recording& recording, const std::map<int64_t, OwnEvents>& events) {
  auto& rows = recording.timeline.rows;
  std::vector<MemoryCurve> memory(rows.size());
  bool all = true;
  for (size_t rank = 0; rank < rows.size(); ++rank) {
    auto found = events.find(int64_t(rank));
    auto& row = rows[rank];
    if (found == events.end() || row.operators.empty()) {
      all = false;
      continue;
    }
    const auto& own = found->second;
    double offset = row.operators.front().start - own.first_operator * kMicrosecond;
    for (auto interval : own.intervals) {
      interval.start = interval.start * kMicrosecond + offset;
      interval.end = interval.end * kMicrosecond + offset;
      row.intervals.push_back(interval);
    }
    std::stable_sort(row.intervals.begin(), row.intervals.end(),
                     [](const auto& a, const auto& b) { return a.start < b.start; });
    memory[rank].bytes = own.memory.bytes;
    for (double time : own.memory.times) memory[rank].times.push_back(time * kMicrosecond + offset);
    recording.memory_limit = std::max(recording.memory_limit, own.memory_limit);
    all &= !own.memory.bytes.empty();
  }
  if (all && !rows.empty()) recording.memory = std::move(memory);
}

// From the first operator or interval of all ranks to the last, once their clocks agree.
void set_length(Timeline& timeline) {
  std::optional<double> first, last;
  auto take = [&](double start, double end) {
    first = std::min(first.value_or(start), start);
    last = std::max(last.value_or(end), end);
  };
  for (const auto& row : timeline.rows) {
    for (const auto& slice : row.operators) take(slice.start, slice.end);
    for (const auto& interval : row.intervals) take(interval.start, interval.end);
  }
  timeline.start = first.value_or(0);
  timeline.end = last.value_or(0);
}

}  // namespace

Recording recording_of(const MeasuredStep& step, const std::string& source) {
  Recording recording{.name = step.name.empty() ? source : concat(source, ", step ", step.name),
                      .schedule = step.schedule,
                      .timeline = step.timeline,
                      .measured = true};
  if (!compare_clocks(step).comparable()) {
    recording.timeline = replay(step, Statistic::each);
    recording.notes.push_back(
        concat("the ranks' clocks cannot be compared: the timeline is a replay of the measured operators (",
               recording.timeline.length(), " s; the longest rank took ", step.length(),
               " s), so messages and gaps are not in it"));
  } else {
    auto& timeline = recording.timeline;
    timeline.end = std::max(timeline.end, timeline.start + step.length());
  }
  for (double bytes : step.memory) recording.memory.push_back({{recording.timeline.start}, {bytes}});
  return recording;
}

Recording recorded_step(const std::vector<std::string>& paths, const ReadOptions& options,
                        const std::optional<std::string>& name) {
  // Both walk through the files.
  auto events = std::async(std::launch::async, [&paths] {
    try {
      return read_own_events(trace_files(paths));
    } catch (const InvalidInput&) {
      return std::map<int64_t, OwnEvents>{};  // read_measured says what is wrong
    }
  });
  auto measurement = read_measured(paths, options);
  const auto& step = name ? step_named(measurement, *name) : typical_step(measurement);
  auto recording = recording_of(step, measurement.source);
  recording.notes.insert(recording.notes.begin(), measurement.notes.begin(), measurement.notes.end());
  bool comparable = compare_clocks(step).comparable();
  if (auto found = events.get(); comparable && !found.empty()) {
    add_events(recording, found);
    set_length(recording.timeline);
  }
  if (measurement.steps.size() > 1 && !name)
    recording.notes.push_back(concat("of ", measurement.steps.size(),
                                     " steps the one with the median length behind the "
                                     "first is taken; --step takes another"));
  return recording;
}

}  // namespace bigmac
