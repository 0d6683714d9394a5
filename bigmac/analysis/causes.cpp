#include "bigmac/analysis/causes.h"

#include <algorithm>
#include <numeric>

#include "bigmac/analysis/faults.h"

namespace bigmac {
namespace {

constexpr std::string_view kNames[] = {
    "straggling item", "long microbatch", "straggling operator", "slow rank",        "slow stage",
    "misplaced work",  "slow link",       "message order",       "uneven units",     "late embedding",
    "late generator",  "messages",        "exchanges",           "between operators"};

struct Look {
  Finder find;
  int times;            // how often there may be one
  bool always = false;  // taken out however little it costs
};
constexpr Look kLooks[] = {
    {clear_items, 1},           {clear_microbatches, 1}, {clear_operators, 1},  {clear_rank, 4},
    {clear_stages, 1},          {clear_placement, 2},    {clear_link, 4},       {clear_order, 1},
    {clear_units, 1},           {clear_embeddings, 1},   {clear_generators, 1}, {clear_messages, 1, true},
    {clear_exchanges, 1, true}, {clear_between, 1, true}};

// What a finder may change.
struct Snapshot {
  std::vector<double> duration, own, message, order, transfer;
  std::vector<uint32_t> inputs_begin;
  std::vector<int32_t> inputs;
  std::vector<double> size, median;  // of Kinds
};
Snapshot snapshot_of(const Cleared& step) {
  const auto& model = step.model;
  return {model.duration,     model.own,    model.message,   model.order,      model.transfer,
          model.inputs_begin, model.inputs, step.kinds.size, step.kinds.median};
}
void restore(Snapshot&& from, Cleared& step) {
  auto& model = step.model;
  model.duration = std::move(from.duration);
  model.own = std::move(from.own);
  model.message = std::move(from.message);
  model.order = std::move(from.order);
  model.transfer = std::move(from.transfer);
  model.inputs_begin = std::move(from.inputs_begin);
  model.inputs = std::move(from.inputs);
  step.kinds.size = std::move(from.size);
  step.kinds.median = std::move(from.median);
}

// Operators whose time a fault changed.
void blame(const Snapshot& before, const StepModel& after, Causes& causes) {
  constexpr double kChanged = 0.95;
  auto finding = int32_t(causes.findings.size());
  for (size_t i = 0; i < after.count(); ++i) {
    if (causes.blamed[i] >= 0 || after.duration[i] >= kChanged * before.duration[i]) continue;
    causes.blamed[i] = finding;
    causes.excess[i] = float(1 - after.duration[i] / before.duration[i]);
  }
}

void sort_by_cost(Causes& causes) {
  std::vector<int32_t> order(causes.findings.size()), place(order.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    return causes.findings[size_t(a)].cost > causes.findings[size_t(b)].cost;
  });
  std::vector<Finding> sorted;
  for (size_t n = 0; n < order.size(); ++n) {
    place[size_t(order[n])] = int32_t(n);
    sorted.push_back(std::move(causes.findings[size_t(order[n])]));
  }
  causes.findings = std::move(sorted);
  for (auto& finding : causes.blamed)
    if (finding >= 0) finding = place[size_t(finding)];
}

}  // namespace

std::string_view name(Fault fault) {
  return kNames[size_t(fault)];
}

Causes find_causes(const Schedule& schedule, const StepModel& model, const Layout& layout) {
  Causes causes;
  causes.blamed.assign(model.count(), -1);
  causes.excess.assign(model.count(), 0);
  double step = length_of(model), length = step;
  Cleared now{schedule, layout, model, kinds_of(schedule, model)};
  causes.stage_times = stage_times(model, now.kinds, schedule.step.microbatches);
  if (step <= 0) return causes;
  for (const auto& look : kLooks)
    for (int time = 0; time < look.times; ++time) {
      auto before = snapshot_of(now);
      auto finding = look.find(now);
      if (!finding) break;
      double cleared = length_of(now.model);
      finding->cost = (length - cleared) / step;
      if (!look.always && finding->cost < kLeastCost) {
        restore(std::move(before), now);
        break;
      }
      blame(before, now.model, causes);
      length = cleared;
      causes.findings.push_back(std::move(*finding));
    }
  double busy = std::accumulate(now.model.duration.begin(), now.model.duration.end(), 0.0);
  causes.operators = busy / double(model.ranks) / step;
  causes.ends = (model.before_first + model.behind_last) / step;
  causes.ramp = length / step - causes.operators - causes.ends;
  sort_by_cost(causes);
  return causes;
}

}  // namespace bigmac
