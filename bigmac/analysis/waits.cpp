#include "bigmac/analysis/waits.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "bigmac/analysis/judge.h"

namespace bigmac {
namespace {

std::string cause_of(const Finding& finding) {
  auto text = std::string(name(finding.fault));
  if (finding.fault == Fault::slow_rank) text += fmt::format(" {}", finding.rank);
  if (finding.fault == Fault::slow_stage) text = "uneven stages";
  return text;
}

std::string shown(const Schedule& schedule, const StepModel& model, size_t i) {
  constexpr size_t kMost = 60;
  auto text = describe(schedule, model.slices[i].op);
  if (text.size() > kMost) text = text.substr(0, kMost - 3) + "...";
  return fmt::format("{} (rank {})", text, model.rank[i]);
}

class Groups {
 public:
  explicit Groups(double total) : total_(total) {}

  void add(const std::string& cause, int rank, double start, double length, int64_t of) {
    if (length <= 0) return;
    auto& group = groups_[cause];
    group.cause = cause;
    ++group.count;
    group.share += length / total_;
    if (length <= group.length) return;
    group.rank = rank;
    group.start = start;
    group.length = length;
    longest_[cause] = of;
  }

  std::vector<WaitGroup> take(const Schedule& schedule, const StepModel& model) {
    std::vector<WaitGroup> list;
    for (auto& [cause, group] : groups_) {
      if (int64_t of = longest_[cause]; of >= 0) group.needs = shown(schedule, model, size_t(of));
      list.push_back(std::move(group));
    }
    std::stable_sort(list.begin(), list.end(),
                     [](const auto& a, const auto& b) { return a.share > b.share; });
    return list;
  }

 private:
  double total_;
  std::map<std::string, WaitGroup> groups_;
  std::map<std::string, int64_t> longest_;
};

}  // namespace

std::vector<WaitGroup> group_waits(const Schedule& schedule, const StepModel& model, const Causes& causes) {
  double length = recorded_length(model);
  auto ramps = ramps_of(model, length);
  // Ranks that nothing is known of are none.
  auto is_known = [&](int32_t last) { return model.is_whole || last >= 0; };
  auto known = std::count_if(model.row_last.begin(), model.row_last.end(), is_known);
  Groups groups(length * double(known));
  for (size_t i = 0; i < model.count(); ++i) {
    auto parts = parts_of(model, i);
    double free = model.free_at(i) + model.transfer[i];
    int rank = model.rank[i];
    const auto& ramp = ramps[size_t(rank)];
    bool warms = free < ramp.first_backward, cools = free >= ramp.last_forward;
    if (!model.is_whole && model.lacks_input[i] != 0) {
      groups.add("what it needed was not recorded", rank, free, model.slices[i].start - free, -1);
      continue;
    }
    if (parts.own > 0)
      groups.add(model.before[i] < 0 ? "step's start" : "between operators", rank, free, parts.own, -1);
    if (!model.by_input[i]) continue;
    auto input = size_t(model.last_input[i]);
    double made = free + parts.late;
    if (parts.order > 0) groups.add("message order", rank, made, parts.order, int64_t(input));
    if (parts.message > 0) {
      int from = std::min(model.rank[input], rank), to = std::max(model.rank[input], rank);
      bool slow = false;
      for (const auto& finding : causes.findings)
        slow |= finding.fault == Fault::slow_link && std::min(finding.rank, finding.peer) == from &&
                std::max(finding.rank, finding.peer) == to;
      groups.add(slow ? fmt::format("slow link {}-{}", from, to) : "messages", rank, made + parts.order,
                 parts.message, int64_t(input));
    }
    if (parts.late <= 0) continue;
    auto found = culprit_of(model, i, free).at;
    auto culprit = found < 0 ? input : size_t(found);
    int32_t finding = causes.blamed[culprit];
    double excess = finding >= 0 ? parts.late * double(causes.excess[culprit]) : 0;
    if (finding >= 0)
      groups.add(cause_of(causes.findings[size_t(finding)]), rank, free, excess, int64_t(culprit));
    const Operator& needed = model.slices[input].op;
    const char* cause = warms ? "warm-up" : cools ? "cool-down" : "pace of other stages";
    if (needed.module == Module::encoder) cause = "late embedding";
    if (needed.module == Module::generator) cause = "late generator";
    groups.add(cause, rank, free, parts.late - excess, int64_t(culprit));
  }
  for (int rank = 0; rank < model.ranks; ++rank) {
    int32_t last = model.row_last[size_t(rank)];
    if (!is_known(last)) continue;
    double free = last < 0 ? 0 : model.slices[size_t(last)].end;
    if (!model.is_whole) {
      groups.add("what was not recorded", rank, free, length - free - model.transfer_behind[size_t(rank)],
                 -1);
      continue;
    }
    double end = length - model.behind_last, transfer = model.transfer_behind[size_t(rank)];
    double cools = std::max(0.0, end - free - transfer);
    groups.add("cool-down", rank, free, cools, -1);
    groups.add("behind the last operator", rank, end, length - free - transfer - cools, -1);
  }
  return groups.take(schedule, model);
}

std::vector<RankTime> rank_parts(const Recording& recording, const StepModel& model) {
  auto times = rank_times(recording.timeline);
  bool recorded = false;
  for (const auto& row : recording.timeline.rows) recorded |= !row.intervals.empty();
  for (size_t i = 0; !recorded && i < model.count(); ++i) {
    auto parts = parts_of(model, i);
    auto& of_rank = times[size_t(model.rank[i])];
    double wait = parts.late + parts.message;
    of_rank.wait += wait;
    of_rank.idle -= wait;
  }
  for (auto& of_rank : times) of_rank.idle = std::max(0.0, of_rank.idle);
  return times;
}

PathSummary summarize_path(const Schedule& schedule, const StepModel& model, const Kinds& kinds) {
  PathSummary summary;
  summary.ranks.assign(size_t(model.ranks), 0);
  double length = recorded_length(model);
  if (model.count() == 0 || length <= 0) return summary;
  std::map<std::string, PathPart> parts;
  auto add = [&](const std::string& what, double time) {
    if (time <= 0) return;
    auto& part = parts[what];
    part.what = what;
    ++part.count;
    part.share += time / length;
  };
  std::vector<int32_t> path;
  int32_t at = -1;
  for (int32_t last : model.row_last)
    if (last >= 0 && (at < 0 || model.slices[size_t(last)].end > model.slices[size_t(at)].end)) at = last;
  add("behind the last operator", model.behind_last);
  for (; at >= 0; at = before_on_path(model, size_t(at))) {
    auto i = size_t(at);
    const auto& [op, start, end] = model.slices[i];
    path.push_back(at);
    summary.ranks[size_t(model.rank[i])] += (end - start) / length;
    auto letter_of = letter(op.phase);
    if (int32_t stage = kinds.stage[i]; stage >= 0)
      add(fmt::format("LLM {} stage {} (rank {})", letter_of, stage, model.rank[i]), end - start);
    else
      add(fmt::format("{} {}", schedule.module_of(schedule.shares.list[op.index]).name, letter_of),
          end - start);
    int32_t before = before_on_path(model, i);
    double since = before < 0 ? 0 : model.slices[size_t(before)].end;
    add(before < 0          ? "before the first operator"
        : model.by_input[i] ? "messages"
                            : "between operators",
        start - since);
  }
  summary.operators = int64_t(path.size());
  for (auto& [what, part] : parts) summary.parts.push_back(std::move(part));
  std::stable_sort(summary.parts.begin(), summary.parts.end(),
                   [](const auto& a, const auto& b) { return a.share > b.share; });
  constexpr size_t kMost = 5;
  size_t most = std::min(kMost, path.size());
  std::partial_sort(path.begin(), path.begin() + int64_t(most), path.end(), [&](int32_t a, int32_t b) {
    return std::pair(-model.duration[size_t(a)], a) < std::pair(-model.duration[size_t(b)], b);
  });
  for (size_t n = 0; n < most; ++n) {
    const auto& slice = model.slices[size_t(path[n])];
    summary.longest.push_back(
        {model.rank[size_t(path[n])], describe(schedule, slice.op), slice.start, slice.end - slice.start});
  }
  return summary;
}

}  // namespace bigmac
