#include "apps/bigmac/plan_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "apps/bigmac/outcome_table.h"
#include "bigmac/common/error.h"
#include "bigmac/formats/layout.h"

namespace bigmac {
namespace {

constexpr double kLeastShown = 0.0005;  // of a step
constexpr size_t kHolders = 6, kRefusedShown = 6;
constexpr double kGiB = 1024.0 * 1024 * 1024;

std::string table_of(const std::vector<Outcome>& outcomes, const Workload& workload) {
  OutcomeTable table(workload);
  for (const auto& outcome : outcomes) table.add(outcome);
  return table.text();
}

std::string layout_text(const cost::Split& layers) {
  Layout layout;
  for (int64_t count : layers) layout.stages.push_back({.layers = count});
  auto first =
      std::find_if(layout.stages.begin(), layout.stages.end(), [](const auto& s) { return s.layers > 0; });
  auto last =
      std::find_if(layout.stages.rbegin(), layout.stages.rend(), [](const auto& s) { return s.layers > 0; });
  first->embedding = true;
  --first->layers;
  last->loss = true;
  --last->layers;
  return to_text(layout);
}

std::string list_text(const std::vector<std::pair<std::string, double>>& parts, double whole) {
  std::string text;
  for (const auto& [what, part] : parts)
    if (part >= kLeastShown * whole)
      text += concat(text.empty() ? "" : ", ", what, " ", percent_text(part / whole));
  return text;
}

// GiB of all ranks, as many digits as they need.
std::string ranks_text(const std::vector<double>& bytes) {
  constexpr size_t kMost = 16;
  std::string text;
  for (size_t rank = 0; rank < std::min(bytes.size(), kMost); ++rank)
    text += fmt::format("{}{:.1f}", rank == 0 ? "" : " ", bytes[rank] / kGiB);
  return text + (bytes.size() > kMost ? fmt::format(" and {} more", bytes.size() - kMost) : "") + " GiB";
}

// What the best step consists of, and what lies in the fullest rank at its peak.
std::string best_text(const PlanReport& report) {
  const auto& best = report.plan.best.front();
  const auto& c = best.configuration;
  const auto& p = report.parts;
  std::string text = "the first one\n";
  text += fmt::format("  microbatches  {} of {} sample{}, in each of {} replica{}\n", best.microbatches,
                      c.microbatch, c.microbatch == 1 ? "" : "s", c.parallel.data,
                      c.parallel.data == 1 ? "" : "s");
  text += fmt::format("  layers        {}  by stage: E embedding, t layer, L head\n", layout_text(c.layers));
  text += fmt::format("  step          {}\n", list_text({{report.workload.backbone.name, p.backbone},
                                                         {"its recompute", p.recompute},
                                                         {"its TP and EP traffic", p.traffic},
                                                         {"encoders and generators", p.modules},
                                                         {"bubbles", p.bubble},
                                                         {"exchanging messages", p.transfer},
                                                         {"messages out of order", p.order},
                                                         {"reducing gradients", p.sync},
                                                         {"update", p.optimizer}},
                                                        best.step));
  text += fmt::format("  memory        {}  by pipeline rank; rank {} at its peak:\n",
                      ranks_text(best.memory_by_rank), report.fullest.rank);
  const auto& holders = report.fullest.holders;
  double others = 0;
  std::vector<std::pair<std::string, std::string>> lines;
  for (size_t n = 0; n < holders.size(); ++n) {
    if (n < kHolders || holders.size() == kHolders + 1)
      lines.emplace_back(bytes_text(holders[n].bytes), holders[n].what);
    else
      others += holders[n].bytes;
  }
  if (others > 0) lines.emplace_back(bytes_text(others), "others");
  for (const auto& [bytes, what] : lines) text += fmt::format("                {:>8}  {}\n", bytes, what);
  return text;
}

std::string alternative_text(const Alternative& other, const Outcome& best, double limit) {
  const auto& outcome = *other.outcome;
  if (!outcome.fits)
    return fmt::format("{} out of memory by {}", other.value, bytes_text(outcome.memory - limit));
  return fmt::format("{} {} {:+.1f} GiB", other.value, signed_percent(outcome.step / best.step - 1),
                     (outcome.memory - best.memory) / kGiB);
}

// The shortest first, then what does not fit, then what is not possible.
std::string choice_text(const Choice& choice, const Outcome& best, double limit) {
  auto others = choice.others;
  auto rank = [](const Alternative& other) {
    if (!other.outcome) return std::tuple(2, 0.0);
    return other.outcome->fits ? std::tuple(0, other.outcome->step) : std::tuple(1, other.outcome->memory);
  };
  std::stable_sort(others.begin(), others.end(),
                   [&](const auto& a, const auto& b) { return rank(a) < rank(b); });
  std::string text, refused;
  size_t count = 0;
  for (const auto& other : others) {
    if (other.outcome)
      text += concat(text.empty() ? "" : ";  ", alternative_text(other, best, limit));
    else
      refused += concat(count++ == 0 ? "" : ", ", other.value);
  }
  if (count == 0) return text;
  if (count > kRefusedShown) refused = concat(count, " others");
  return concat(text, text.empty() ? "" : ";  ", refused, " not possible");
}

std::string choices_text(const PlanReport& report) {
  size_t width = 0;
  for (const auto& choice : report.choices)
    width = std::max(width, choice.name.size() + 1 + choice.value.size());
  std::string text = "one choice another, the rest as it is: step, memory\n";
  for (const auto& choice : report.choices)
    text += fmt::format("  {:<{}}  {}\n", choice.name + " " + choice.value, width,
                        choice_text(choice, report.plan.best.front(), report.workload.memory));
  return text;
}

// An example is "configuration: why"; its numbers say enough.
std::string refused_text(const Plan& plan, const Workload& workload) {
  std::string text;
  auto add = [&](const std::string& kind, int64_t count, const std::string& why) {
    text += fmt::format("  {:>7}  {:<23}  {}\n", count, kind, why);
  };
  if (plan.out_of_memory.count > 0)
    add("out of memory", plan.out_of_memory.count,
        concat("more than ", bytes_text(workload.memory), " on some rank"));
  for (const auto& [kind, refused] : plan.refused) {
    auto colon = refused.example.find(": ");
    add(kind, refused.count,
        colon == std::string::npos ? refused.example : refused.example.substr(colon + 2));
  }
  return text.empty() ? "" : concat("\nnot possible: how many, why, the first of them\n", text);
}

std::string nothing_text(const PlanReport& report) {
  const auto& plan = report.plan;
  std::string text = "nothing fits; what comes nearest by its lower bound:\n";
  if (plan.least_memory) {
    OutcomeTable table(report.workload);
    table.add(*plan.least_memory, "OOM");
    text += table.text();
  }
  return text +
         (plan.out_of_memory_text.empty() ? plan.out_of_memory.example + "\n" : plan.out_of_memory_text);
}

std::string first_batch_text(const PlanReport& report) {
  const auto& batches = report.workload.samples_per_gpu;
  if (batches.size() < 2 || report.plan.samples_per_gpu != batches.front()) return "";
  std::string others;
  for (size_t n = 1; n < batches.size(); ++n) others += concat(n == 1 ? "" : ", ", batches[n]);
  return concat("; --samples-per-gpu takes another (", others, ")");
}

}  // namespace

std::string job_text(const Workload& workload) {
  return concat(workload.name, " on ", workload.gpus, " ", workload.hardware.name, " of ",
                bytes_text(workload.memory));
}

std::string batch_text(int64_t samples_per_gpu, const Workload& workload) {
  return fmt::format("{} sample{} a GPU, {} in a step", samples_per_gpu, samples_per_gpu == 1 ? "" : "s",
                     samples_per_gpu * workload.gpus);
}

std::vector<Outcome> thinned(const std::vector<Outcome>& frontier, int64_t count) {
  if (int64_t(frontier.size()) <= count) return frontier;
  std::vector<Outcome> out;
  if (count == 0) return out;
  double most = frontier.front().memory, least = frontier.back().memory;
  size_t last = 0;
  for (int64_t n = 0; n < count; ++n) {
    double limit = count == 1 ? most : most * std::pow(least / most, double(n) / double(count - 1));
    size_t at = n == count - 1 && n > 0 ? frontier.size() - 1 : 0;
    while (at + 1 < frontier.size() && frontier[at].memory > limit * (1 + 1e-9)) ++at;
    if (n > 0 && at <= last) continue;
    out.push_back(frontier[at]);
    last = at;
  }
  return out;
}

PlanReport report_of(Plan plan, const Workload& workload, double seconds, int64_t best, int64_t frontier) {
  PlanReport report{workload, std::move(plan), seconds, frontier};
  if (report.plan.best.empty()) return report;
  Estimator estimator(workload, report.plan.samples_per_gpu);
  report.choices = polish(report.plan, estimator);
  if (int64_t(report.plan.best.size()) > best) report.plan.best.resize(size_t(best));
  report.parts = step_parts(workload, report.plan.best.front());
  report.fullest = estimator.fullest_rank(report.plan.best.front().configuration);
  return report;
}

std::string to_text(const PlanReport& report) {
  const auto& plan = report.plan;
  auto text = fmt::format("{}\n{}{}\n", job_text(report.workload),
                          batch_text(plan.samples_per_gpu, report.workload), first_batch_text(report));
  text += fmt::format(
      "{} configurations are legal; {} could be among the best and were simulated, in {:.2f} s\n\n",
      plan.candidates, plan.simulated, report.seconds);
  if (plan.best.empty()) return text + nothing_text(report) + refused_text(plan, report.workload);
  text += concat("the shortest steps\n", table_of(plan.best, report.workload), "\n", best_text(report), "\n",
                 choices_text(report));
  auto frontier = thinned(plan.frontier, report.frontier);
  if (!frontier.empty()) {
    text += "\nless memory: the shortest step within it";
    if (frontier.size() < plan.frontier.size())
      text += fmt::format(", {} of {} (--frontier N takes more)", frontier.size(), plan.frontier.size());
    text += concat("\n", table_of(frontier, report.workload));
  }
  return text + refused_text(plan, report.workload);
}

}  // namespace bigmac
