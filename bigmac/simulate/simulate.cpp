#include "bigmac/simulate/simulate.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "bigmac/common/error.h"
#include "bigmac/schedule/base.h"
#include "bigmac/schedule/timing.h"

namespace bigmac {
namespace {

// The longest chain of dependencies, whatever the rows say. Operators of one microbatch form one chain, so
// they are visited along it.
double longest_chain(const Step& step, const Durations& durations) {
  Ids ids(step);
  std::vector<double> ends(ids.count, 0);
  double longest = 0;
  auto visit = [&](int rank, const Operator& op) {
    double ready = inputs_ready(step, ids, rank, op, ends, durations.latency());
    double end = ready + durations(rank, op);
    ends[ids.of(rank, op)] = end;
    longest = std::max(longest, end);
  };
  bool nests = step.arrangement != Arrangement::llm_only;
  for (int m = 0; m < step.microbatches; ++m) {
    bool encodes = nests && step.has_encoder() && step.encoder[m];
    if (encodes) visit(unit_rank(step, m), encoder_forward(m));
    for (int64_t s = 0; s < ids.stages; ++s)
      visit(int(s % step.ranks), backbone_forward(int(s / step.ranks), m));
    if (nests && step.has_generator() && step.generator[m]) visit(unit_rank(step, m), generate(m));
    for (int64_t s = ids.stages - 1; s >= 0; --s)
      visit(int(s % step.ranks), backbone_backward(int(s / step.ranks), m));
    if (encodes) visit(unit_rank(step, m), encoder_backward(m));
  }
  return longest;
}

}  // namespace

Timeline simulate(const Schedule& schedule, const Costs& costs) {
  Durations durations(schedule.step, costs);
  Timeline timeline;
  timeline.rows.resize(schedule.ranks());
  for (int rank = 0; rank < schedule.ranks(); ++rank)
    timeline.rows[rank].operators.reserve(schedule.row(rank).size());
  std::vector<double> ends;
  auto reached = run_table(schedule, durations, durations.latency(), ends,
                           [&](int rank, const Operator& op, double start, double end) {
                             timeline.rows[rank].operators.push_back({op, start, end});
                           });
  for (int rank = 0; rank < schedule.ranks(); ++rank) {
    if (reached[rank] != int64_t(schedule.row(rank).size()))
      throw InvalidInput("[simulate] " + check(schedule).back());
    const auto& row = timeline.rows[rank].operators;
    if (!row.empty()) timeline.end = std::max(timeline.end, row.back().end);
  }
  return timeline;
}

StepReport report(const Schedule& schedule, const Costs& costs, const Timeline& timeline) {
  const Step& step = schedule.step;
  StepReport report;
  report.makespan = timeline.length();
  report.times = rank_times(timeline);
  report.peaks = peak_live(schedule);
  report.idle_over_total = idle_over_total(timeline);
  report.idle_over_busy = idle_over_busy(timeline);
  bool nests = step.arrangement != Arrangement::llm_only;
  if (nests && step.has_encoder()) report.warmup_units = units_ahead(step);

  Step plain = step;
  plain.arrangement = Arrangement::llm_only;
  double nested_work = 0, work = 0;
  for (const auto& row : timeline.rows)
    for (const auto& slice : row.operators) {
      work += slice.end - slice.start;
      if (slice.op.module != Module::backbone) nested_work += slice.end - slice.start;
    }
  report.ideal = simulate(base_table(plain), costs).length() + nested_work / double(step.ranks);
  report.lower_bound = std::max(work / double(step.ranks), longest_chain(step, Durations(step, costs)));
  return report;
}

std::string to_json(const StepReport& report) {
  nlohmann::ordered_json json{{"makespan", report.makespan},
                              {"ideal", report.ideal},
                              {"ratio_to_ideal", report.ratio_to_ideal()},
                              {"lower_bound", report.lower_bound},
                              {"idle_over_total", report.idle_over_total},
                              {"idle_over_busy", report.idle_over_busy},
                              {"warmup_units", report.warmup_units},
                              {"ranks", nlohmann::ordered_json::array()}};
  for (size_t rank = 0; rank < report.times.size(); ++rank)
    json["ranks"].push_back({{"rank", rank},
                             {"busy", report.times[rank].busy},
                             {"idle", report.times[rank].idle},
                             {"peak_encoder_units", report.peaks[rank].encoder_units},
                             {"peak_generator_units", report.peaks[rank].generator_units},
                             {"peak_backbone_in_flight", report.peaks[rank].backbone_in_flight}});
  return json.dump() + "\n";
}

}  // namespace bigmac
