#include "bigmac/measured/measured_step.h"

#include <algorithm>
#include <functional>

#include "bigmac/common/error.h"
#include "bigmac/formats/in_quotes.h"

namespace bigmac {

double MeasuredStep::length() const {
  double longest = 0;
  for (double time : rank_steps) longest = std::max(longest, time);
  return longest;
}

std::vector<double> peak_memory(const MeasuredStep& step) {
  std::vector<double> peaks;
  for (const auto& curve : step.memory) {
    if (curve.bytes.empty()) return {};
    peaks.push_back(*std::max_element(curve.bytes.begin(), curve.bytes.end()));
  }
  return peaks;
}

void check_whole(const MeasuredStep& step) {
  if (step.missing.empty()) return;
  std::string text = "[measured] the step is not whole: ";
  for (const auto& part : step.missing) text += (&part == &step.missing[0] ? "" : "; ") + part;
  throw InvalidInput(text + "; bigmac view, draw and report show what there is of it");
}

double idle_over_total(const MeasuredStep& step) {
  double busy = 0;
  for (const auto& row : step.timeline.rows)
    for (const auto& slice : row.operators) busy += slice.end - slice.start;
  double total = step.length() * double(step.timeline.rows.size());
  return total > 0 ? 1 - busy / total : 0;
}

std::vector<const MeasuredStep*> behind_warmup(const Measurement& measurement) {
  std::vector<const MeasuredStep*> steps;
  for (size_t n = measurement.steps.size() > 1 ? 1 : 0; n < measurement.steps.size(); ++n)
    steps.push_back(&measurement.steps[n]);
  return steps;
}

const MeasuredStep& typical_step(const Measurement& measurement) {
  auto steps = behind_warmup(measurement);
  if (steps.empty()) throw InvalidInput(concat("[measured] ", measurement.source, " holds no step"));
  auto is_whole = [](const MeasuredStep* step) { return step->missing.empty(); };
  if (std::none_of(steps.begin(), steps.end(), is_whole)) {
    for (const auto& step : measurement.steps)
      if (is_whole(&step)) return step;
    return *std::max_element(measurement.steps.begin(), measurement.steps.end(),
                             [](const auto& a, const auto& b) {
                               return a.schedule.operators.size() < b.schedule.operators.size();
                             });
  }
  std::erase_if(steps, std::not_fn(is_whole));
  std::stable_sort(steps.begin(), steps.end(),
                   [](const auto* a, const auto* b) { return a->length() < b->length(); });
  return *steps[(steps.size() - 1) / 2];
}

const MeasuredStep& step_named(const Measurement& measurement, const std::string& name) {
  for (const auto& step : measurement.steps)
    if (step.name == name) return step;
  const auto& steps = measurement.steps;
  std::string known = "it holds one step without a number";
  if (!steps.empty() && !steps.front().name.empty())
    known = steps.size() == 1
                ? concat("it holds iteration ", steps.front().name)
                : concat("it holds ", steps.size(), ", from ", steps.front().name, " to ", steps.back().name);
  throw InvalidInput(
      concat("[measured] ", measurement.source, " has no iteration ", in_quotes(name), ": ", known));
}

}  // namespace bigmac
