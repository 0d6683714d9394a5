#include "bigmac/simulate/simulate.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "bigmac/common/error.h"
#include "bigmac/schedule/base.h"
#include "bigmac/schedule/timing.h"

namespace bigmac {
namespace {

// The longest chain of dependencies, whatever the rows say. Every chain goes through the encoders, up the
// stages, through the generators, down the stages and back to the encoders; so the operators are visited in
// that order.
double longest_chain(const Schedule& schedule, const Durations& durations) {
  Dependencies dependencies(schedule);
  std::vector<double> ends(dependencies.count(), 0);
  double longest = 0;
  auto visit = [&](int rank, const Operator& op) {
    double end = inputs_ready(dependencies, rank, op, ends, durations.latency()) + durations(rank, op);
    ends[dependencies.of(rank, op)] = end;
    longest = std::max(longest, end);
  };
  auto visit_shares = [&](Phase phase) {
    for (size_t share = 0; share < schedule.shares.list.size(); ++share) {
      const auto& module = schedule.module_of(schedule.shares.list[share]);
      if (module.runs(phase))
        visit(schedule.shares.list[share].rank, {uint32_t(share), 0, module.kind, phase});
    }
  };
  auto visit_stage = [&](int64_t s, Phase phase) {
    int rank = dependencies.rank_of(s), chunk = dependencies.chunk_of(s);
    for (int64_t m = 0; m < schedule.step.microbatches; ++m) visit(rank, backbone(phase, chunk, m));
  };
  // A split backward hands its gradient on sooner than a whole one; its weight gradient comes behind.
  std::vector<uint8_t> split(dependencies.backbone_count(), 0);
  for (int rank = 0; rank < schedule.ranks(); ++rank)
    for (const auto& op : schedule.row(rank))
      if (op.phase == Phase::input) split[dependencies.of(rank, op)] = 1;
  auto visit_backwards = [&](int64_t s) {
    int rank = dependencies.rank_of(s), chunk = dependencies.chunk_of(s);
    for (int64_t m = 0; m < schedule.step.microbatches; ++m) {
      bool in_two = split[dependencies.backward_of(s, m)] != 0;
      visit(rank, backbone(in_two ? Phase::input : Phase::backward, chunk, m));
      if (in_two) visit(rank, backbone(Phase::weight, chunk, m));
    }
  };
  visit_shares(Phase::forward);
  for (int64_t s = 0; s < dependencies.stages(); ++s) visit_stage(s, Phase::forward);
  visit_shares(Phase::generate);
  for (int64_t s = dependencies.stages() - 1; s >= 0; --s) visit_backwards(s);
  visit_shares(Phase::backward);
  return longest;
}

// The same step without encoders and generators, in the backbone's own order.
Step plain_step(Step step) {
  step.arrangement = Arrangement::llm_only;
  step.modules.clear();
  return step;
}

}  // namespace

Timeline simulate(const Schedule& schedule, const Costs& costs) {
  Durations durations(schedule, costs);
  Dependencies dependencies(schedule);
  Timeline timeline;
  timeline.rows.resize(schedule.ranks());
  for (int rank = 0; rank < schedule.ranks(); ++rank)
    timeline.rows[rank].operators.reserve(schedule.row(rank).size());
  std::vector<double> ends;
  auto reached = run_table(schedule, dependencies, durations, durations.latency(), ends,
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
  report.shares = time_shares(timeline);
  for (const auto& module : step.modules) report.modules.push_back(module.name);
  double nested_work = 0, work = 0;
  for (const auto& row : timeline.rows)
    for (const auto& slice : row.operators) {
      work += slice.end - slice.start;
      if (slice.op.module != Module::backbone) nested_work += slice.end - slice.start;
    }
  report.lower_bound =
      std::max(work / double(step.ranks), longest_chain(schedule, Durations(schedule, costs)));
  // A table that was read, or has its stages elsewhere, is no variant of a base.
  if (step.base == Base::custom || !step.stage_ranks.empty()) return report;
  Step plain = plain_step(step);
  Costs backbone_costs = costs;
  backbone_costs.modules.clear();
  report.ideal = simulate(base_table(plain), backbone_costs).length() + nested_work / double(step.ranks);
  return report;
}

std::string to_json(const StepReport& report) {
  nlohmann::ordered_json json{{"makespan", report.makespan}};
  if (report.ideal) {
    json["ideal"] = *report.ideal;
    json["ratio_to_ideal"] = *report.ratio_to_ideal();
  }
  json["lower_bound"] = report.lower_bound;
  json["ratio_to_lower_bound"] = report.ratio_to_lower_bound();
  json["idle_over_total"] = report.idle_over_total;
  json["idle_over_busy"] = report.idle_over_busy;
  json["bubble_over_total"] = report.shares.bubble;
  json["transfer_over_total"] = report.shares.transfer;
  json["order_over_total"] = report.shares.order;
  json["ranks"] = nlohmann::ordered_json::array();
  for (size_t rank = 0; rank < report.times.size(); ++rank) {
    auto units = nlohmann::ordered_json::object();
    for (size_t n = 0; n < report.modules.size(); ++n) units[report.modules[n]] = report.peaks[rank].units[n];
    json["ranks"].push_back({{"rank", rank},
                             {"busy", report.times[rank].busy},
                             {"transfer", report.times[rank].transfer},
                             {"order", report.times[rank].order},
                             {"wait", report.times[rank].wait},
                             {"idle", report.times[rank].idle},
                             {"peak_units", units},
                             {"peak_in_flight", report.peaks[rank].in_flight}});
  }
  return json.dump() + "\n";
}

}  // namespace bigmac
