#include "bigmac/analysis/analyse.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "bigmac/analysis/sentences.h"
#include "bigmac/common/error.h"
#include "bigmac/schedule/order.h"
#include "bigmac/timeline/mean_costs.h"

namespace bigmac {
namespace {

// What a message takes that its receiver waited for, in the median.
double latency_of(const StepModel& model) {
  std::vector<double> times;
  for (size_t i = 0; i < model.count(); ++i)
    if (model.last_input[i] >= 0 && model.by_input[i]) times.push_back(model.message[i]);
  return std::max(0.0, median_of(std::move(times)));
}

std::optional<double> imbalance_of(const Recording& recording) {
  const Step& step = recording.schedule.step;
  if (step.modules.empty()) return {};
  auto loss = unit_loss(step, mean_costs(recording.schedule, recording.timeline));
  return loss.mean > 0 ? std::optional(loss.slowest / loss.mean) : std::nullopt;
}

std::string verdict_of(const Analysis& analysis) {
  const auto& findings = analysis.causes.findings;
  if (!findings.empty() && findings[0].cost >= kLeastCost) return sentence(findings[0]);
  for (const auto& suggestion : analysis.suggestions.list) {
    if (suggestion.change != Change::warmup_units) continue;
    if (suggestion.saves_memory)
      return fmt::format("the encoder runs further ahead than it has to: {}; {}", suggestion.text,
                         suggestion.condition);
    return fmt::format("the encoder runs too few units ahead: {} would shorten the step by {}",
                       suggestion.text, share_in_percent(suggestion.gain));
  }
  std::string none = "no rank, stage, link or item stands out; ";
  double ramp = analysis.causes.ramp, base = analysis.base_bubble;
  if (ramp < kLeastCost) return none + "the step is as full as its schedule allows";
  if (base > ramp / 2)
    return none + fmt::format("warm-up and cool-down of {} leave {} of the step idle",
                              analysis.suggestions.base, share_in_percent(base));
  return none + fmt::format("warm-up, cool-down and the order of operators leave {} of the step idle",
                            share_in_percent(ramp));
}

// What needs no more than the operators that there are.
void add_measured(const Recording& recording, const StepModel& model, const Kinds& kinds,
                  Analysis& analysis) {
  analysis.step = recording.timeline.length();
  bool whole = recording.missing.empty();
  auto recorded = whole ? Timeline{} : without_empty_rows(recording.timeline);
  const auto& timeline = whole ? recording.timeline : recorded;
  analysis.idle_over_total = idle_over_total(timeline);
  analysis.idle_over_busy = idle_over_busy(timeline);
  analysis.ranks = rank_parts(recording, model);
  for (const auto& row : recording.timeline.rows) analysis.waits_recorded |= !row.intervals.empty();
  MeasuredStep measured{.name = recording.name,
                        .schedule = recording.schedule,
                        .timeline = recording.timeline,
                        .rank_steps = {}};
  auto times = operator_times({&measured});
  analysis.stages = std::move(times.stages);
  for (auto& stage : analysis.stages) stage.rank = kinds.rank_of_stage[size_t(stage.stage)];
  analysis.modules = std::move(times.modules);
  analysis.peaks = memory_peaks(recording);
  analysis.notes = recording.notes;
  if (!analysis.waits_recorded)
    analysis.notes.emplace_back(
        "waits and transfers were not recorded: waits are what operators' inputs explain, the rest is idle");
  if (recording.memory.empty()) analysis.notes.emplace_back("memory was not recorded");
}

Analysis analyse_what_is_there(const Recording& recording) {
  auto model = model_of_what_is_there(recording.schedule, recording.timeline);
  auto kinds = kinds_of(recording.schedule, model);
  Analysis analysis;
  analysis.whole = false;
  add_measured(recording, model, kinds, analysis);
  analysis.causes.blamed.assign(model.count(), -1);
  analysis.causes.excess.assign(model.count(), 0);
  analysis.causes.stage_times = stage_times(model, kinds, recording.schedule.step.microbatches);
  analysis.waits = group_waits(recording.schedule, model, analysis.causes);
  analysis.notes.emplace_back(
      "causes, critical path, suggestions and the comparison with a simulation are left out: they need every "
      "operator of the step");
  analysis.verdict = "the step is not whole: " + recording.missing.front();
  return analysis;
}

}  // namespace

Analysis analyse(const Recording& recording, const AnalysisOptions& options) {
  if (recording.schedule.operators.empty() || recording.timeline.length() <= 0)
    throw InvalidInput(concat("[analysis] ", recording.name, " holds no operator that took time"));
  auto stages = recording.schedule.step.stages(), given = int64_t(options.layout.stages.size());
  if (given > 0 && given != stages)
    throw InvalidInput(concat("[layout] holds ", given, " stages, the step has ", stages));
  if (!recording.missing.empty()) return analyse_what_is_there(recording);
  auto model = model_of(recording.schedule, recording.timeline);
  auto kinds = kinds_of(recording.schedule, model);
  Analysis analysis;
  add_measured(recording, model, kinds, analysis);
  analysis.causes = find_causes(recording.schedule, model, options.layout);
  analysis.waits = group_waits(recording.schedule, model, analysis.causes);
  analysis.path = summarize_path(recording.schedule, model, kinds);
  analysis.unit_imbalance = imbalance_of(recording);
  analysis.gap = gap_to_simulated(recording, model);
  analysis.suggestions = suggest(recording, latency_of(model), options);
  analysis.base_bubble =
      std::clamp(analysis.suggestions.base_bubble / analysis.step, 0.0, std::max(0.0, analysis.causes.ramp));
  analysis.verdict = verdict_of(analysis);
  return analysis;
}

}  // namespace bigmac
