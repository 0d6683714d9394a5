#include "bigmac/analysis/sentences.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

namespace bigmac {
namespace {

std::string busy_sentence(const Timeline& timeline) {
  constexpr double kAlike = 0.005;  // of the step
  auto times = rank_times(timeline);
  auto less_busy = [](const RankTime& a, const RankTime& b) { return a.busy < b.busy; };
  auto [least, most] = std::minmax_element(times.begin(), times.end(), less_busy);
  double length = timeline.length();
  if (most->busy - least->busy < kAlike * length)
    return fmt::format("All ranks compute alike: {} of the step.", share_in_percent(least->busy / length));
  return fmt::format("Rank {} computes least, {} of the step, rank {} most, {}.", least - times.begin(),
                     share_in_percent(least->busy / length), most - times.begin(),
                     share_in_percent(most->busy / length));
}

std::string waits_sentence(const std::vector<WaitGroup>& waits) {
  constexpr size_t kMost = 3;
  constexpr double kWorthSaying = 0.005;  // of all ranks' time
  std::string text;
  for (size_t n = 0; n < std::min(kMost, waits.size()) && waits[n].share > kWorthSaying; ++n)
    text += fmt::format("{}{} for {}", n > 0 ? ", " : "", share_in_percent(waits[n].share), waits[n].cause);
  return text.empty() ? text : fmt::format("Ranks spend of their time {}.", text);
}

std::string path_sentence(const PathSummary& path) {
  double operators = 0;
  for (double share : path.ranks) operators += share;
  return fmt::format("The step's end hangs on {} operators; {} of that chain is time between operators.",
                     path.operators, share_in_percent(std::max(0.0, 1 - operators)));
}

std::vector<std::string> sentences_of(const Recording& recording, const StepModel& model) {
  std::vector<std::string> said;
  Causes causes;
  causes.blamed.assign(model.count(), -1);
  causes.excess.assign(model.count(), 0);
  if (!model.is_whole) {
    for (const auto& part : recording.missing)
      said.push_back(fmt::format("The step is not whole: {}.", part));
    if (said.empty()) said.emplace_back("Not all operators of the step ran.");
  } else {
    causes = find_causes(recording.schedule, model);
    for (const auto& finding : causes.findings) {
      if (finding.cost < kLeastCost) continue;
      auto text = sentence(finding) + ".";
      text.front() =
          char(text.front() >= 'a' && text.front() <= 'z' ? text.front() - 'a' + 'A' : text.front());
      said.push_back(finding.advice.empty() ? text
                                            : fmt::format("{} What would help: {}.", text, finding.advice));
    }
    if (said.empty()) said.emplace_back("No rank, stage, link or item stands out.");
    if (causes.ramp > kLeastCost)
      said.push_back(fmt::format(
          "Warm-up, cool-down and the order of operators leave {} of the step idle. What would help: more "
          "microbatches, more chunks a rank (--vpp), encoder items in these gaps (--schedule nested-fill).",
          share_in_percent(causes.ramp)));
  }
  said.push_back(busy_sentence(recording.timeline));
  if (auto waits = waits_sentence(group_waits(recording.schedule, model, causes)); !waits.empty())
    said.push_back(std::move(waits));
  if (model.is_whole) {
    auto kinds = kinds_of(recording.schedule, model);
    said.push_back(path_sentence(summarize_path(recording.schedule, model, kinds)));
  }
  return said;
}

}  // namespace

std::string share_in_percent(double share) {
  return share < 0.1 ? fmt::format("{:.1f} %", 100 * share) : fmt::format("{:.0f} %", 100 * share);
}

std::string sentence(const Finding& finding) {
  return fmt::format("{}; costs {} of the step", finding.text, share_in_percent(finding.cost));
}

Explained explain(const Recording& recording, size_t most_waits) {
  Explained explained;
  const auto& [schedule, timeline] = std::tie(recording.schedule, recording.timeline);
  size_t operators = 0;
  for (const auto& row : timeline.rows) operators += row.operators.size();
  bool whole = recording.missing.empty() && operators == schedule.operators.size();
  explained.model = whole ? model_of(schedule, timeline) : model_of_what_is_there(schedule, timeline);
  explained.waits = named_waits(explained.model, most_waits);
  if (recording.timeline.length() > 0)
    explained.sentences = sentences_of(recording, explained.model);
  else
    explained.sentences = {"The step has no length."};
  return explained;
}

}  // namespace bigmac
