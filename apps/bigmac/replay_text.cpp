#include "apps/bigmac/replay_text.h"

#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>

#include "apps/bigmac/explain_text.h"
#include "apps/bigmac/text_columns.h"
#include "bigmac/common/error.h"
#include "bigmac/measured/clocks.h"

namespace bigmac {
namespace {

using Json = nlohmann::ordered_json;

std::string ms(double seconds) {
  return fmt::format("{:.1f}", seconds * 1e3);
}
std::string percent(double share) {
  return fmt::format("{:+.2f} %", share * 100);
}
std::string gib(double bytes) {
  return fmt::format("{:.1f}", bytes / (1 << 30));
}

struct Predictions {
  double each, mean, median;
  ClosedForm form;
};

Predictions predictions_of(const MeasuredStep& step, double latency) {
  auto length = [&](Statistic statistic) { return replay(step, statistic, latency).length(); };
  return {length(Statistic::each), length(Statistic::mean), length(Statistic::median), closed_form(step)};
}

std::string iteration_table(const Measurement& measurement, double latency) {
  Column names{"iteration", {}}, measured{"measured ms", {}}, idle{"idle/total", {}}, each{"replay ms", {}},
      error{"error", {}}, mean{"mean error", {}}, median{"median error", {}}, form{"closed form error", {}};
  for (const auto& step : measurement.steps) {
    auto found = predictions_of(step, latency);
    names.cells.push_back(step.name);
    measured.cells.push_back(ms(step.length()));
    idle.cells.push_back(fmt::format("{:.2f} %", 100 * idle_over_total(step)));
    each.cells.push_back(ms(found.each));
    error.cells.push_back(percent(error_of(found.each, step)));
    mean.cells.push_back(percent(error_of(found.mean, step)));
    median.cells.push_back(percent(error_of(found.median, step)));
    form.cells.push_back(percent(error_of(found.form.even, step)));
  }
  return side_by_side({names, measured, idle, each, error, mean, median, form}) + "\n";
}

std::string order_text(const MeasuredStep& measured) {
  auto base = base_of(measured);
  const Step& step = measured.schedule.step;
  auto text = fmt::format("P={} V={} M={}, {} operators, in ", step.ranks, step.chunks, step.microbatches,
                          measured.schedule.operators.size());
  if (!base) return text + "an order of their own\n";
  text += fmt::format("the order of {}", name(base->base));
  for (const auto& module : step.modules) text += fmt::format(", {} '{}'", name(module.kind), module.name);
  return text + "\n";
}

std::string figures(const MeasuredStep& step, double latency) {
  auto found = predictions_of(step, latency);
  std::string links = latency > 0 ? concat(latency * 1e3, " ms a message") : "no time for links";
  Column names{"", {}, true}, times{"ms", {}}, errors{"error", {}}, meaning{"", {}, true};
  auto add = [&](const std::string& title, double time, bool predicted, const std::string& text) {
    names.cells.push_back(title);
    times.cells.push_back(ms(time));
    errors.cells.push_back(predicted ? percent(error_of(time, step)) : "");
    meaning.cells.push_back(text);
  };
  add("measured step", step.length(), false, "the longest over the ranks");
  add("replay, each", found.each, true, "every measured duration, in the measured order; " + links);
  add("replay, mean", found.mean, true, "every operator as the mean of its stage");
  add("replay, median", found.median, true, "every operator as the median of its stage");
  add("closed form", found.form.even, true, "(M * V + P - 1) * (f + b), means over all stages");
  if (found.form.slowest)
    add("slowest stage", *found.form.slowest, true,
        "(M - 1) * largest f + b of a stage, and one of each stage");
  auto text = side_by_side({names, times, errors, meaning});
  text +=
      fmt::format("\nidle/total {:.2f} %, idle time / (P * measured step)\n", 100 * idle_over_total(step));
  auto clocks = compare_clocks(step);
  if (!clocks.comparable())
    return text + fmt::format(
                      "clocks: {} of {} messages end after they are needed, by up to {} ms: the ranks' "
                      "clocks cannot be compared; durations can\n",
                      clocks.conflicts, clocks.messages, ms(-clocks.least_gap));
  auto path = path_parts(step);
  return text +
         fmt::format(
             "critical path: {} ms in operators, {} between operators of a rank, {} from rank to rank, "
             "{} at both ends\n",
             ms(path.operators), ms(path.rows), ms(path.messages), ms(path.ends));
}

// A line a stage; mean, median and 95th percentile of each kind of operator.
std::string stage_table(const OperatorTimes& times) {
  std::map<int64_t, int> rank_of;
  std::map<Phase, std::map<int64_t, Spread>> by_phase;
  for (const auto& stage : times.stages) {
    rank_of[stage.stage] = stage.rank;
    by_phase[stage.phase][stage.stage] = stage.spread;
  }
  Column stages{"stage", {}}, ranks{"rank", {}}, counts{"n", {}};
  for (auto [stage, rank] : rank_of) {
    stages.cells.push_back(std::to_string(stage));
    ranks.cells.push_back(std::to_string(rank));
    auto& forwards = by_phase[Phase::forward];
    counts.cells.push_back(std::to_string(forwards[stage].count));
  }
  std::vector<Column> columns{stages, ranks, counts};
  for (const auto& [phase, spreads] : by_phase) {
    Column mean{concat(letter(phase), " mean"), {}}, median{"median", {}}, high{"p95", {}};
    for (auto [stage, rank] : rank_of) {
      auto at = spreads.find(stage);
      bool there = at != spreads.end();
      mean.cells.push_back(there ? fmt::format("{:.2f}", at->second.mean * 1e3) : "-");
      median.cells.push_back(there ? fmt::format("{:.2f}", at->second.median * 1e3) : "-");
      high.cells.push_back(there ? fmt::format("{:.2f}", at->second.p95 * 1e3) : "-");
    }
    columns.insert(columns.end(), {mean, median, high});
  }
  auto text = side_by_side(columns);
  for (const auto& module : times.modules)
    text += fmt::format("{} {}: mean {:.2f}, median {:.2f}, p95 {:.2f} for an item of size 1 (n={})\n",
                        module.module, letter(module.phase), module.spread.mean * 1e3,
                        module.spread.median * 1e3, module.spread.p95 * 1e3, module.spread.count);
  return text;
}

std::string memory_text(const MeasuredStep& step) {
  auto fit = fit_memory(step, true);
  if (!fit) return {};
  auto memory = peak_memory(step);
  Column ranks{"rank", {}}, live{"in flight", {}}, measured{"GiB measured", {}}, fitted{"fitted", {}},
      error{"error", {}};
  for (size_t r = 0; r < memory.size(); ++r) {
    ranks.cells.push_back(std::to_string(r));
    live.cells.push_back(std::to_string(fit->in_flight[r]));
    measured.cells.push_back(gib(memory[r]));
    fitted.cells.push_back(gib(fit->fitted[r]));
    error.cells.push_back(memory[r] > 0 ? percent(fit->fitted[r] / memory[r] - 1) : "");
  }
  auto text = fmt::format(
      "\nmemory: {} GiB + {} GiB for each microbatch's chunk in flight, fitted to ranks 0 to {}\n\n",
      gib(fit->constant), fmt::format("{:.2f}", fit->per_in_flight / (1 << 30)), fit->ranks_used - 1);
  text += side_by_side({ranks, live, measured, fitted, error});
  double more = memory.back() - fit->fitted.back();
  text +=
      fmt::format("within {:.2f} %; the last rank, which holds the output head and the loss, has {} GiB {}\n",
                  100 * fit->largest_error, gib(std::abs(more)), more < 0 ? "less" : "more");
  if (auto all = fit_memory(step, false))
    text += fmt::format("fitted to all ranks: {} GiB + {:.2f} GiB, within {:.2f} %\n", gib(all->constant),
                        all->per_in_flight / (1 << 30), 100 * all->largest_error);
  return text;
}

std::string other_text(const ReplayReport& report) {
  const auto& other = *report.other;
  const auto& measured = report.step;
  double own = replay(measured, other.statistic, report.latency).length();
  double length = other.timeline.length();
  auto text = fmt::format("\nthe same operators as {} ({}):\n", describe(other), name(other.statistic));
  text += fmt::format("{} ms, idle/total {:.2f} %; ", ms(length), 100 * idle_over_total(other.timeline));
  auto count = double(other.schedule.step.microbatches), before = double(measured.schedule.step.microbatches);
  if (count == before)
    return text + fmt::format("{} against the replay of the measured order, {} ms\n",
                              percent(length / own - 1), ms(own));
  return text + fmt::format("{} ms a microbatch, {} against the replay of the measured step\n",
                            ms(length / count), percent(length / count / (own / before) - 1));
}

std::string range_of(const std::vector<const MeasuredStep*>& steps) {
  if (steps.size() == 1) return steps[0]->name.empty() ? "" : concat(", iteration ", steps[0]->name);
  return concat(", iterations ", steps.front()->name, " to ", steps.back()->name);
}

Json json_of(const MeasuredStep& step, double latency) {
  auto found = predictions_of(step, latency);
  auto one = [&](double time) { return Json{{"step", time}, {"error", error_of(time, step)}}; };
  Json json{{"iteration", step.name},
            {"measured", step.length()},
            {"idle_over_total", idle_over_total(step)},
            {"replay", {{"each", one(found.each)}, {"mean", one(found.mean)}, {"median", one(found.median)}}},
            {"closed_form", one(found.form.even)}};
  if (found.form.slowest) json["slowest_stage"] = one(*found.form.slowest);
  return json;
}

Json json_of(const Spread& spread) {
  return {{"count", spread.count}, {"mean", spread.mean},   {"median", spread.median}, {"p5", spread.p5},
          {"p95", spread.p95},     {"least", spread.least}, {"most", spread.most}};
}

Json json_of(const MemoryFit& fit, const std::vector<double>& memory) {
  Json json{{"constant", fit.constant},
            {"per_in_flight", fit.per_in_flight},
            {"ranks_used", fit.ranks_used},
            {"largest_error", fit.largest_error},
            {"ranks", Json::array()}};
  for (size_t r = 0; r < memory.size(); ++r)
    json["ranks"].push_back(
        {{"in_flight", fit.in_flight[r]}, {"measured", memory[r]}, {"fitted", fit.fitted[r]}});
  return json;
}

Json stages_json(const OperatorTimes& times) {
  auto list = Json::array();
  for (const auto& stage : times.stages) {
    list.push_back({{"stage", stage.stage}, {"rank", stage.rank}, {"operator", letter(stage.phase)}});
    list.back().update(json_of(stage.spread));
  }
  return list;
}

Json modules_json(const OperatorTimes& times) {
  auto list = Json::array();
  for (const auto& module : times.modules) {
    list.push_back({{"module", module.module}, {"operator", letter(module.phase)}});
    list.back().update(json_of(module.spread));
  }
  return list;
}

}  // namespace

std::string describe(const Replayed& other) {
  const Step& step = other.schedule.step;
  auto text = fmt::format("{}, base {}, P={} V={} M={}", name(step.arrangement), name(step.base), step.ranks,
                          step.chunks, step.microbatches);
  return step.base == Base::interleaved ? text + fmt::format(" G={}", step.group_size()) : text;
}

Timeline in_milliseconds(Timeline timeline) {
  for (auto& row : timeline.rows)
    for (auto& slice : row.operators) {
      slice.start = (slice.start - timeline.start) * 1e3;
      slice.end = (slice.end - timeline.start) * 1e3;
    }
  timeline.end = timeline.length() * 1e3;
  timeline.start = 0;
  return timeline;
}

std::string to_text(const ReplayReport& report) {
  const auto& step = report.step;
  std::string text = report.measurement.source + "\n" + order_text(step) + "\n";
  if (report.all) {
    text += iteration_table(report.measurement, report.latency);
    text += fmt::format(
        "iteration {} has the median step of those behind the first; --iteration N takes another\n\n",
        step.name);
  }
  text += figures(step, report.latency);
  text += fmt::format("\ncosts by stage in ms{}\n\n", range_of(report.steps)) +
          stage_table(operator_times(report.steps));
  text += memory_text(step);
  if (report.other) text += other_text(report);
  if (report.waits)
    text += fmt::format("\nthe {}, in ms:\n", report.other ? "other schedule" : "replay") +
            explain_text(report.schedule(), in_milliseconds(report.shown), *report.waits);
  return text;
}

Json to_json(const ReplayReport& report) {
  const auto& step = report.step;
  const Step& shape = step.schedule.step;
  Json json = json_of(step, report.latency);
  auto base = base_of(step);
  auto path = path_parts(step);
  auto clocks = compare_clocks(step);
  auto times = operator_times(report.steps);
  json.update(
      {{"source", report.measurement.source},
       {"ranks", shape.ranks},
       {"chunks", shape.chunks},
       {"microbatches", shape.microbatches},
       {"base", name(base ? base->base : Base::custom)},
       {"latency", report.latency},
       {"clocks",
        {{"messages", clocks.messages}, {"conflicts", clocks.conflicts}, {"least_gap", clocks.least_gap}}},
       {"stages", stages_json(times)},
       {"modules", modules_json(times)}});
  if (clocks.comparable())
    json["critical_path"] = {
        {"operators", path.operators}, {"rows", path.rows}, {"messages", path.messages}, {"ends", path.ends}};
  if (auto fit = fit_memory(step, true)) json["memory"] = json_of(*fit, peak_memory(step));
  if (auto fit = fit_memory(step, false)) json["memory_all_ranks"] = json_of(*fit, peak_memory(step));
  if (report.all)
    for (const auto& one : report.measurement.steps)
      json["iterations"].push_back(json_of(one, report.latency));
  if (const auto& other = report.other)
    json["other"] = {{"schedule", describe(*other)},
                     {"statistic", name(other->statistic)},
                     {"step", other->timeline.length()},
                     {"idle_over_total", idle_over_total(other->timeline)},
                     {"notes", other->notes}};
  if (report.waits) json["explain"] = explain_json(report.schedule(), report.shown, *report.waits);
  json["notes"] = report.measurement.notes;
  return json;
}

}  // namespace bigmac
