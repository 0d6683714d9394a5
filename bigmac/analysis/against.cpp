#include "bigmac/analysis/against.h"

#include <algorithm>

#include "bigmac/common/error.h"
#include "bigmac/schedule/dependencies.h"
#include "bigmac/simulate/simulate.h"
#include "bigmac/timeline/mean_costs.h"

namespace bigmac {
namespace {

std::string shown(const Step& step) {
  auto text = shape(step);
  for (const auto& module : step.modules)
    text += concat(", ", module.items.size(), " items of '", module.name, "'");
  return text;
}

void check_comparable(const Step& step, const Step& other) {
  bool same = step.ranks == other.ranks && step.stages() == other.stages() &&
              step.microbatches == other.microbatches && step.modules.size() == other.modules.size();
  for (size_t n = 0; same && n < step.modules.size(); ++n)
    same = step.modules[n].kind == other.modules[n].kind &&
           step.modules[n].items.size() == other.modules[n].items.size();
  if (!same)
    throw InvalidInput(
        concat("[report] --against must be of the same step, ", shown(step), "; it has ", shown(other)));
}

// Numbers of the other model's operators by the ids of this one's. Shares are the same where their items are.
class Twins {
 public:
  Twins(const Schedule& schedule, const Schedule& other, const StepModel& model)
      : ids_(schedule), same_shares_(schedule.shares == other.shares), dependencies_(other) {
    numbers_.assign(size_t(dependencies_.count()), -1);
    for (size_t i = 0; i < model.count(); ++i)
      numbers_[size_t(dependencies_.of(model.rank[i], model.slices[i].op))] = int32_t(i);
  }
  // -1: there is none.
  int32_t of(int rank, const Operator& op) const {
    if (op.module != Module::backbone && !same_shares_) return -1;
    auto id = ids_.of(rank, op);
    return id < int64_t(numbers_.size()) ? numbers_[size_t(id)] : -1;
  }

 private:
  Dependencies ids_;
  bool same_shares_;
  Dependencies dependencies_;
  std::vector<int32_t> numbers_;
};

}  // namespace

StepGap gap_between(const Recording& recording, const StepModel& model, const Recording& other) {
  check_comparable(recording.schedule.step, other.schedule.step);
  auto target = model_of(other.schedule, other.timeline);
  Twins twins(recording.schedule, other.schedule, target);
  auto means = mean_costs(other.schedule, other.timeline);
  Durations durations(recording.schedule, means);
  StepModel now = model;
  StepGap gap{.against = other.name, .step = length_of(model), .other = length_of(target)};
  double length = gap.step;
  auto change = [&](std::vector<double>& values, const std::vector<double>& to, bool is_duration) {
    for (size_t i = 0; i < now.count(); ++i) {
      int32_t twin = twins.of(now.rank[i], now.slices[i].op);
      if (twin >= 0)
        values[i] = to[size_t(twin)];
      else if (is_duration)
        values[i] = durations(now.rank[i], now.slices[i].op);
      else
        values[i] = 0;
    }
    double before = length;
    length = length_of(now);
    return before - length;
  };
  gap.operators = change(now.duration, target.duration, true);
  gap.links = change(now.message, target.message, false);
  gap.between = change(now.own, target.own, false);
  gap.ends = model.behind_last - target.behind_last;
  gap.order = length - gap.ends - gap.other;
  return gap;
}

StepGap gap_to_simulated(const Recording& recording, const StepModel& model) {
  return gap_to_simulated(recording, model, recording.schedule,
                          "its own table with the mean of every stage and module, messages free");
}

StepGap gap_to_simulated(const Recording& recording, const StepModel& model, const Schedule& other,
                         const std::string& name) {
  check_comparable(recording.schedule.step, other.step);
  Recording simulated{.name = name, .schedule = other, .timeline = {}};
  simulated.timeline = simulate(other, mean_costs(recording.schedule, recording.timeline));
  return gap_between(recording, model, simulated);
}

}  // namespace bigmac
