#include "apps/bigmac/plan_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "apps/bigmac/text_columns.h"
#include "bigmac/common/error.h"
#include "bigmac/plan/estimator.h"

namespace bigmac {
namespace {

std::string layers_text(const cost::Split& layers) {
  std::string text;
  for (int64_t count : layers) text += concat(text.empty() ? "" : ",", count);
  return text;
}

struct OutcomeColumns {
  Column step{"step", {}}, tokens{"tokens/s/GPU", {}}, mfu{"MFU", {}}, bubble{"bubble", {}}, memory{"memory", {}};
  Column configuration{"configuration", {}, true};

  void add(const Outcome& outcome, const Workload& workload) {
    step.cells.push_back(seconds_text(outcome.step));
    tokens.cells.push_back(fmt::format("{:.0f}", outcome.tokens_per_second));
    mfu.cells.push_back(percent_text(outcome.mfu));
    bubble.cells.push_back(percent_text(outcome.bubble));
    memory.cells.push_back(bytes_text(outcome.memory));
    configuration.cells.push_back(to_text(outcome.configuration, workload));
  }
  std::string text() const { return side_by_side({step, tokens, mfu, bubble, memory, configuration}); }
};

std::string table_of(const std::vector<Outcome>& outcomes, const Workload& workload) {
  OutcomeColumns columns;
  for (const auto& outcome : outcomes) columns.add(outcome, workload);
  return columns.text();
}

// What the best step consists of, and what lies in the fullest rank at its peak.
std::string why_text(const Outcome& best, const Workload& workload, int64_t samples_per_gpu) {
  double step = best.step;
  auto part = [&](double seconds) { return percent_text(seconds / step); };
  double compute = best.pipeline * (1 - best.bubble - best.transfer - best.order);
  std::string text = fmt::format("the first one: {} microbatches, layers by stage {} (embedding and head count)\n",
                                 best.microbatches, layers_text(best.configuration.layers));
  text += fmt::format("  its step      computing {}, bubbles {}", part(compute), part(best.pipeline * best.bubble));
  if (best.transfer > 0) text += fmt::format(", exchanging {}", part(best.pipeline * best.transfer));
  if (best.order > 0) text += fmt::format(", messages out of order {}", part(best.pipeline * best.order));
  text += fmt::format(", gradients {}, update {}\n", part(best.sync), part(best.optimizer));
  Estimator estimator(workload, samples_per_gpu);
  auto fullest = estimator.fullest_rank(best.configuration);
  text += fmt::format("  its memory    rank {} at its peak:", fullest.rank);
  const char* separator = " ";
  for (const auto& holder : fullest.holders) {
    text += fmt::format("{}{} {}", separator, holder.what, bytes_text(holder.bytes));
    separator = ", ";
  }
  return text + "\n";
}

std::string refused_text(const Plan& plan) {
  if (plan.refused.empty() && plan.out_of_memory.count == 0) return "";
  std::string text = "\nnot possible\n";
  auto add = [&](const std::string& kind, const Refused& refused) {
    text += fmt::format("  {:>7}  {}: {}\n", refused.count, kind, refused.example);
  };
  if (plan.out_of_memory.count > 0) add("out of memory", plan.out_of_memory);
  for (const auto& [kind, refused] : plan.refused) add(kind, refused);
  return text;
}

std::string first_line(const std::string& text) {
  return text.substr(0, text.find('\n'));
}

std::string batch_text(const ComparedBatch& batch, const Workload& workload) {
  const auto& last = batch.systems.back();
  Column system{"", {}, true}, step{"step", {}}, speed{"speed-up", {}}, bubble{"bubble", {}}, memory{"memory", {}};
  Column configuration{"configuration", {}, true};
  for (const auto& one : batch.systems) {
    system.cells.emplace_back(name(one.system));
    step.cells.push_back(one.best ? seconds_text(one.best->step) : "-");
    speed.cells.push_back(one.best && last.best ? fmt::format("{:.2f}", one.best->step / last.best->step) : "-");
    bubble.cells.push_back(one.best ? percent_text(one.best->bubble) : "-");
    const auto& shown = one.best ? one.best : one.least_memory;
    memory.cells.push_back(shown ? bytes_text(shown->memory) : "-");
    configuration.cells.push_back(one.best ? to_text(one.best->configuration, workload) : first_line(one.why_not));
  }
  return fmt::format("{} sample{} a GPU, {} in a step\n", batch.samples_per_gpu, batch.samples_per_gpu == 1 ? "" : "s",
                     batch.samples_per_gpu * workload.gpus) +
         side_by_side({system, step, speed, bubble, memory, configuration}) + "\n";
}

}  // namespace

std::string seconds_text(double seconds) {
  if (seconds >= 1) return fmt::format("{:.3g} s", seconds);
  return seconds >= 1e-3 ? fmt::format("{:.3g} ms", seconds * 1e3) : fmt::format("{:.3g} us", seconds * 1e6);
}

std::string percent_text(double part) {
  return fmt::format("{:.1f} %", 100 * part);
}

std::string job_text(const Workload& workload) {
  return concat(workload.name, " on ", workload.gpus, " ", workload.hardware.name, " of ", bytes_text(workload.memory));
}

std::string to_text(const Plan& plan, const Workload& workload, double seconds) {
  auto text = fmt::format("{}\n{} samples a GPU, {} in a step\n", job_text(workload), plan.samples_per_gpu,
                          plan.samples_per_gpu * workload.gpus);
  text += fmt::format("{} configurations are legal, {} could be among the best and were simulated, in {}\n\n",
                      plan.candidates, plan.simulated, seconds_text(seconds));
  if (plan.best.empty()) {
    text += "nothing fits; what holds least:\n";
    if (plan.least_memory) text += table_of({*plan.least_memory}, workload);
    text += plan.out_of_memory_text.empty() ? plan.out_of_memory.example + "\n" : plan.out_of_memory_text;
    return text + refused_text(plan);
  }
  text += "the shortest steps\n" + table_of(plan.best, workload) + "\n" +
          why_text(plan.best.front(), workload, plan.samples_per_gpu);
  if (!plan.frontier.empty())
    text += "\ntime against memory: nothing is both shorter and smaller than these\n" + table_of(plan.frontier, workload);
  return text + refused_text(plan);
}

std::string to_text(const Comparison& comparison, const Workload& workload) {
  auto text = fmt::format("{}\nspeed-up: of {} over each\n\n", job_text(workload), name(comparison.systems.back()));
  for (const auto& batch : comparison.batches) text += batch_text(batch, workload);
  return text;
}

}  // namespace bigmac
