#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <numeric>

#include "bigmac/analysis/analyse.h"
#include "bigmac/schedule/make.h"
#include "bigmac/schedule/timing.h"
#include "bigmac/simulate/links.h"
#include "bigmac/simulate/simulate.h"
#include "tests/schedule/support.h"

namespace bigmac {

// What the table takes when every operator takes `duration`, and a message `latency`.
inline Timeline timed(const Schedule& schedule, const std::function<double(int, const Operator&)>& duration,
                      double latency = 0) {
  Dependencies dependencies(schedule);
  Timeline timeline;
  timeline.rows.resize(size_t(schedule.ranks()));
  std::vector<double> ends;
  run_table(schedule, dependencies, duration, latency, ends,
            [&](int rank, const Operator& op, double start, double end) {
              timeline.rows[size_t(rank)].operators.push_back({op, start, end});
              timeline.end = std::max(timeline.end, end);
            });
  return timeline;
}

// As measured: a table says neither its base nor its arrangement.
inline Recording recorded(Schedule schedule, Timeline timeline) {
  schedule.units.clear();
  schedule.step.group = 0;
  for (auto& module : schedule.step.modules) module.warmup_units = 0;
  if (schedule.step.stage_ranks.empty()) {
    bool loops = true;
    std::vector<int32_t> ranks;
    for (int64_t s = 0; s < schedule.step.stages(); ++s) {
      ranks.push_back(rank_of_stage(schedule.step, s));
      loops &= ranks.back() == s % schedule.step.ranks;
    }
    if (!loops) schedule.step.stage_ranks = ranks;
  }
  schedule.step.base = Base::custom;
  if (!schedule.step.modules.empty()) schedule.step.arrangement = Arrangement::nested;
  return {.name = "test", .schedule = std::move(schedule), .timeline = std::move(timeline), .measured = true};
}

inline Step with_items(Step step, int64_t a_microbatch) {
  for (auto& module : step.modules) {
    module.items.clear();
    for (int64_t m = 0; m < step.microbatches; ++m)
      for (int64_t n = 0; n < a_microbatch; ++n)
        module.items.push_back({uint32_t(m), 1.0 / double(a_microbatch)});
  }
  return step;
}

// For every encoder and generator of the step the same.
inline Costs module_costs(double forward, double backward) {
  return {.modules = {{forward, backward}}};
}

inline std::string all_of(const Analysis& analysis) {
  auto text = analysis.verdict;
  for (const auto& finding : analysis.causes.findings)
    text += concat("\n  ", finding.cost, " ", finding.text);
  for (const auto& suggestion : analysis.suggestions.list)
    text += concat("\n  ", suggestion.gain, " ", suggestion.text);
  return text;
}

// That the fault is the first finding, and that the verdict begins with it.
inline const Finding* first_is(const Analysis& analysis, Fault fault) {
  SCOPED_TRACE(all_of(analysis));
  const auto& findings = analysis.causes.findings;
  if (findings.empty()) {
    ADD_FAILURE() << "no finding";
    return nullptr;
  }
  EXPECT_EQ(name(findings[0].fault), name(fault));
  EXPECT_TRUE(analysis.verdict.starts_with(findings[0].text + "; costs "));
  return &findings[0];
}

}  // namespace bigmac
