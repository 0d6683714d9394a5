#include "bigmac/measured/replay.h"

#include <algorithm>

#include "bigmac/common/error.h"
#include "bigmac/schedule/base.h"
#include "bigmac/schedule/check.h"
#include "bigmac/schedule/make.h"
#include "bigmac/schedule/timing.h"
#include "bigmac/simulate/simulate.h"

namespace bigmac {
namespace {

template <class Duration>
Timeline run(const Schedule& schedule, const Duration& duration, double latency) {
  Dependencies dependencies(schedule);
  Timeline timeline;
  timeline.rows.resize(size_t(schedule.ranks()));
  std::vector<double> ends;
  auto reached = run_table(schedule, dependencies, duration, latency, ends,
                           [&](int rank, const Operator& op, double start, double end) {
                             timeline.rows[size_t(rank)].operators.push_back({op, start, end});
                             timeline.end = std::max(timeline.end, end);
                           });
  for (int rank = 0; rank < schedule.ranks(); ++rank)
    if (reached[size_t(rank)] != int64_t(schedule.row(rank).size()))
      throw InvalidInput("[replay] " + check(schedule).back());
  return timeline;
}

// What every operator of the measured step took, by its id there.
std::vector<double> durations_by_id(const MeasuredStep& step, const Dependencies& dependencies) {
  std::vector<double> times(size_t(dependencies.count()), 0);
  for (size_t r = 0; r < step.timeline.rows.size(); ++r)
    for (const auto& slice : step.timeline.rows[r].operators)
      times[size_t(dependencies.of(int(r), slice.op))] = slice.end - slice.start;
  return times;
}

// The measured times of a backbone operator of another table, whose stages are `parts` times as many: those
// of the stage that its own is a part of. Halves of a backward that was measured whole take half of it each;
// whole ones that were measured in halves both.
class MeasuredBackbone {
 public:
  MeasuredBackbone(const MeasuredStep& measured, const Schedule& other)
      : from_(measured.schedule),
        to_(other),
        times_(durations_by_id(measured, from_)),
        parts_(double(to_.stages()) / double(from_.stages())),
        split_(times_.size(), 0) {
    for (size_t r = 0; r < measured.timeline.rows.size(); ++r)
      for (const auto& slice : measured.timeline.rows[r].operators)
        if (slice.op.phase == Phase::input) split_[size_t(from_.of(int(r), slice.op))] = 1;
  }

  double operator()(int rank, const Operator& op) const {
    int64_t stage = to_.stage(rank, op.chunk) * from_.stages() / to_.stages(), m = op.index;
    if (op.phase == Phase::forward) return times_[size_t(from_.forward_of(stage, m))] / parts_;
    auto id = size_t(from_.backward_of(stage, m));
    double input = split_[id] ? times_[id] : times_[id] / 2;
    double weight = split_[id] ? times_[size_t(from_.weight_of(stage, m))] : times_[id] / 2;
    if (op.phase == Phase::input) return input / parts_;
    if (op.phase == Phase::weight) return weight / parts_;
    return (input + weight) / parts_;
  }

 private:
  Dependencies from_, to_;
  std::vector<double> times_;
  double parts_;
  std::vector<uint8_t> split_;
};

std::vector<double> cut(const std::vector<double>& costs, int64_t parts) {
  std::vector<double> list;
  for (double cost : costs)
    for (int64_t n = 0; n < parts; ++n) list.push_back(cost / double(parts));
  return list;
}

int64_t parts_of(const Step& measured, const Step& step) {
  if (step.ranks != measured.ranks)
    throw InvalidInput(concat("[replay] was measured on P=", measured.ranks, " ranks, got P=", step.ranks));
  int64_t stages = measured.stages();
  if (measured.stages() != measured.ranks * measured.chunks)
    throw InvalidInput(concat("[replay] the measured step's ", stages,
                              " stages are not V on every rank; only "
                              "its own order can be replayed"));
  if (step.chunks % measured.chunks != 0)
    throw InvalidInput(concat(
        "[replay] V=", step.chunks, " is no multiple of the V=", measured.chunks,
        " that was measured; nearest: ",
        std::max<int64_t>(1, (step.chunks + measured.chunks / 2) / measured.chunks) * measured.chunks));
  return step.chunks / measured.chunks;
}

void check_modules(const Step& measured, const Step& step) {
  if (step.modules.empty()) return;
  bool same = step.modules.size() == measured.modules.size() && step.microbatches == measured.microbatches;
  for (size_t n = 0; same && n < step.modules.size(); ++n)
    same = step.modules[n].name == measured.modules[n].name &&
           step.modules[n].items.size() == measured.modules[n].items.size();
  if (!same)
    throw InvalidInput(concat("[replay] the encoders and generators must be the measured ones, with M=",
                              measured.microbatches, " and all their items"));
}

}  // namespace

Timeline replay(const MeasuredStep& step, Statistic statistic, double latency) {
  if (statistic != Statistic::each) {
    auto costs = fit_costs(step, statistic);
    costs.latency = latency;
    return simulate(step.schedule, costs);
  }
  Dependencies dependencies(step.schedule);
  auto times = durations_by_id(step, dependencies);
  auto duration = [&](int rank, const Operator& op) { return times[size_t(dependencies.of(rank, op))]; };
  return run(step.schedule, duration, latency);
}

Replayed replay_as(const MeasuredStep& measured, const Step& step, Statistic statistic, double latency) {
  const Step& from = measured.schedule.step;
  int64_t parts = parts_of(from, step);
  check_modules(from, step);
  auto costs = fit_costs(measured, statistic);
  costs.forward = cut(costs.forward, parts);
  costs.backward = cut(costs.backward, parts);
  costs.weight = cut(costs.weight, parts);
  costs.latency = latency;
  if (step.modules.empty()) costs.modules.clear();
  Replayed found{.schedule = make_schedule(step, costs), .timeline = {}, .statistic = statistic};
  if (!found.schedule.step.stage_ranks.empty())
    throw InvalidInput(concat("[replay] the schedule ", name(step.arrangement),
                              " has stages of its own, which were not measured"));
  if (parts > 1) found.notes.push_back(concat("every measured stage is cut into ", parts, " equal parts"));
  bool measured_whole = std::none_of(measured.schedule.operators.begin(), measured.schedule.operators.end(),
                                     [](const auto& op) { return op.phase == Phase::input; });
  bool splits = std::any_of(found.schedule.operators.begin(), found.schedule.operators.end(),
                            [](const auto& op) { return op.phase == Phase::input; });
  if (splits && measured_whole)
    found.notes.push_back(
        "backwards were measured whole: their input and weight gradients are taken as half of it each");
  bool nested = std::any_of(found.schedule.operators.begin(), found.schedule.operators.end(),
                            [](const auto& op) { return op.module != Module::backbone; });
  if (statistic == Statistic::each && (nested || step.microbatches != from.microbatches)) {
    found.statistic = Statistic::mean;
    found.notes.push_back(
        nested ? "encoder and generator operators have other items than those measured: mean times are taken"
               : "other microbatches were measured: mean times are taken");
  }
  found.timeline = found.statistic == Statistic::each
                       ? run(found.schedule, MeasuredBackbone(measured, found.schedule), latency)
                       : simulate(found.schedule, costs);
  return found;
}

Step step_like(const MeasuredStep& measured) {
  Step step = measured.schedule.step;
  step.base = step.chunks == 1 ? Base::one_f_one_b : Base::interleaved;
  step.stage_ranks.clear();
  step.arrangement = step.modules.empty() ? Arrangement::llm_only : Arrangement::nested;
  return step;
}

std::optional<Step> base_of(const MeasuredStep& measured) {
  const Step& from = measured.schedule.step;
  auto backbone_of = [](const Schedule& schedule, int rank) {
    std::vector<Operator> row;
    for (const auto& op : schedule.row(rank))
      if (op.module == Module::backbone) row.push_back(op);
    return row;
  };
  auto is_order_of = [&](const Schedule& table) {
    for (int64_t s = 0; s < from.stages(); ++s)
      if (rank_of_stage(table.step, s) != rank_of_stage(from, s)) return false;
    for (int rank = 0; rank < measured.schedule.ranks(); ++rank)
      if (backbone_of(table, rank) != backbone_of(measured.schedule, rank)) return false;
    return true;
  };
  if (from.stages() != from.ranks * from.chunks) return {};
  bool generates = from.has(Module::generator);
  for (Base base :
       {Base::one_f_one_b, Base::interleaved, Base::zb_h1, Base::zb_v, Base::dualpipe_v, Base::gpipe}) {
    Step step = step_like(measured);
    step.base = base;
    if (!generates) step.generator_unit = 0;
    try {
      if (is_order_of(base_table(step, generates ? Turn::behind_generator : Turn::at_once))) return step;
    } catch (const InvalidInput&) {
      continue;  // not with these counts
    }
  }
  return {};
}

ClosedForm closed_form(const MeasuredStep& step) {
  const Step& shape = step.schedule.step;
  double backbone = 0, nested = 0;
  for (const auto& row : step.timeline.rows)
    for (const auto& [op, start, end] : row.operators)
      (op.module == Module::backbone ? backbone : nested) += end - start;
  auto ranks = double(shape.ranks), chunks = double(shape.chunks), microbatches = double(shape.microbatches);
  ClosedForm form;
  double mean = backbone / (double(shape.stages()) * microbatches);
  form.even = (microbatches * chunks + ranks - 1) * mean + nested / ranks;
  if (shape.chunks > 1) return form;
  auto costs = fit_costs(step, Statistic::mean);
  double slowest = 0, sum = 0;
  for (size_t s = 0; s < costs.forward.size(); ++s) {
    double stage = costs.forward[s] + costs.backward[s];
    slowest = std::max(slowest, stage);
    sum += stage;
  }
  form.slowest = (microbatches - 1) * slowest + sum + nested / ranks;
  return form;
}

double error_of(double predicted, const MeasuredStep& step) {
  double measured = step.length();
  return measured > 0 ? predicted / measured - 1 : 0;
}

PathParts path_parts(const MeasuredStep& step) {
  const auto& rows = step.timeline.rows;
  Dependencies dependencies(step.schedule);
  struct Place {
    size_t rank = 0, position = 0;
  };
  std::vector<Place> places(size_t(dependencies.count()));
  Place at;
  for (size_t r = 0; r < rows.size(); ++r)
    for (size_t p = 0; p < rows[r].operators.size(); ++p) {
      places[size_t(dependencies.of(int(r), rows[r].operators[p].op))] = {r, p};
      if (rows[r].operators[p].end > rows[at.rank].operators[at.position].end) at = {r, p};
    }
  PathParts parts;
  while (true) {
    const Slice& slice = rows[at.rank].operators[at.position];
    parts.operators += slice.end - slice.start;
    std::optional<Place> before;
    auto end_of = [&](Place place) { return rows[place.rank].operators[place.position].end; };
    if (at.position > 0) before = {at.rank, at.position - 1};
    dependencies.for_each_predecessor(int(at.rank), slice.op, [&](int64_t id, int) {
      Place place = places[size_t(id)];
      if (!before || end_of(place) > end_of(*before)) before = place;
    });
    // Operators that end no sooner do so only where clocks do not fit; the path must lead back in time.
    if (!before || end_of(*before) >= slice.end) break;
    (before->rank == at.rank ? parts.rows : parts.messages) += slice.start - end_of(*before);
    at = *before;
  }
  parts.ends = std::max(0.0, step.length() - parts.operators - parts.rows - parts.messages);
  return parts;
}

}  // namespace bigmac
