#include "apps/bigmac/report_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "apps/bigmac/share_text.h"
#include "apps/bigmac/text_columns.h"
#include "bigmac/schedule/order.h"

namespace bigmac {
namespace {

constexpr int kBarLength = 20;

std::string bar(double share) {
  int filled = int(std::lround(share * kBarLength));
  return std::string(filled, '#') + std::string(kBarLength - filled, '.');
}

// "1", or "0 to 3" where the stages differ.
std::string range(const std::vector<double>& values) {
  auto [least, most] = std::minmax_element(values.begin(), values.end());
  return *least == *most ? fmt::format("{:.4g}", *least) : fmt::format("{:.4g} to {:.4g}", *least, *most);
}

bool is_uneven(const std::vector<double>& values) {
  return std::any_of(values.begin(), values.end(), [&](double value) { return value != values[0]; });
}

std::string times_line(const Step& step, const Costs& costs) {
  bool uneven = is_uneven(costs.forward) || is_uneven(costs.backward);
  auto text = fmt::format("forward + backward time: LLM {} {} + {}", uneven ? "stage" : "chunk",
                          range(costs.forward), range(costs.backward));
  if (step.splits_backward() && !costs.weight.empty())
    text += fmt::format(" (weights {})", range(costs.weight));
  for (size_t n = 0; n < step.modules.size(); ++n) {
    auto cost = costs_of_module(step, costs, n);
    const auto& module = step.modules[n];
    text += module.trained ? fmt::format(", {} {:g} + {:g}", module.name, cost.forward, cost.backward)
                           : fmt::format(", {} (frozen) {:g}", module.name, cost.forward);
  }
  if (costs.latency > 0) text += fmt::format("; latency {:g}", costs.latency);
  return text + "\n";
}

bool is_one_item_each(const Step& step, const NestedModule& module) {
  return module.items == one_item_each("", module.kind, step.microbatches).items;
}

// "items: image 512, at most 15 a microbatch, none in 32 of 64; sizes 0.01 to 0.8"
std::string items_line(const Step& step, const NestedModule& module) {
  if (module.items.empty()) return fmt::format("items: {} none\n", module.name);
  std::vector<int64_t> counts(size_t(step.microbatches), 0);
  double least = module.items[0].size, most = least;
  for (const auto& item : module.items) {
    ++counts[item.microbatch];
    least = std::min(least, item.size);
    most = std::max(most, item.size);
  }
  auto text = fmt::format("items: {} {}, at most {} a microbatch", module.name, module.items.size(),
                          *std::max_element(counts.begin(), counts.end()));
  if (auto empty = std::count(counts.begin(), counts.end(), 0); empty > 0)
    text += fmt::format(", none in {} of {}", empty, step.microbatches);
  return text + fmt::format("; sizes {}\n", range({least, most}));
}

std::string heading(const Schedule& schedule, const Costs& costs) {
  const Step& step = schedule.step;
  std::string text = fmt::format("{} schedule, P={} V={} M={}, base {}", name(step.arrangement), step.ranks,
                                 step.chunks, step.microbatches, name(step.base));
  if (step.base == Base::interleaved) text += fmt::format(" G={}", step.group_size());
  text += '\n';
  text += times_line(step, costs);
  for (const auto& module : step.modules)
    if (!is_one_item_each(step, module)) text += items_line(step, module);
  text += order_line(step);
  if (auto split = split_of(schedule))
    text += fmt::format("ranks: encoder {}, LLM {}, generator {}\n", split->encoder, split->backbone,
                        split->generator);
  return text + "\n";
}

std::string figures(const Schedule& schedule, const Costs& costs, const StepReport& report) {
  auto times = time_cells({report.makespan, report.lower_bound, report.ideal.value_or(report.makespan)});
  struct Figure {
    std::string name, value, meaning;
  };
  std::vector<Figure> lines{{"makespan", times[0], "time of the whole step"}};
  if (report.ideal) {
    lines.push_back({"ideal", times[2],
                     "plain LLM step + (encoder + generator work) / P: what unlimited memory would give"});
    lines.push_back({"ratio to ideal", fmt::format("{:.3f}", *report.ratio_to_ideal()), "makespan / ideal"});
  }
  lines.push_back(
      {"lower bound", times[1], "max(total work / P, longest chain of dependencies): no schedule is faster"});
  lines.push_back(
      {"ratio to bound", fmt::format("{:.3f}", report.ratio_to_lower_bound()), "makespan / lower bound"});
  lines.push_back(
      {"idle/total", fmt::format("{:.2f} %", 100 * report.idle_over_total), "idle time / (P * makespan)"});
  lines.push_back({"idle/busy", fmt::format("{:.2f} %", 100 * report.idle_over_busy),
                   "idle time / time inside operators"});
  if (report.shares.transfer + report.shares.order > 0) {
    auto part = [](double share) { return fmt::format("{:.2f} %", 100 * share); };
    lines.push_back(
        {"bubble", part(report.shares.bubble), "waiting for what has not been made; of idle/total"});
    lines.push_back({"exchanging", part(report.shares.transfer), "sending and receiving; likewise"});
    lines.push_back({"message order", part(report.shares.order), "waiting behind other messages; likewise"});
  }
  if (auto imbalance = unit_imbalance(schedule, costs))
    lines.push_back({"unit imbalance", fmt::format("{:.3f}", *imbalance),
                     "encoder and generator units: time of their slowest ranks / of the mean rank"});
  size_t width = 0;
  for (const auto& line : lines) width = std::max(width, line.value.size());
  std::string text;
  for (const auto& line : lines)
    text += fmt::format("{:<14}  {:>{}}  {}\n", line.name, line.value, width, line.meaning);
  return text + "\n";
}

std::string rank_lines(const StepReport& report) {
  std::vector<double> busy, idle, exchanging, order;
  Column rank{"rank", {}}, share{fmt::format("{:<{}}", "busy / makespan", kBarLength + 8), {}},
      backbone{"LLM chunks", {}};
  std::vector<Column> units;
  for (const auto& module : report.modules) units.push_back({module + " units", {}});
  for (size_t r = 0; r < report.times.size(); ++r) {
    double part = report.makespan > 0 ? report.times[r].busy / report.makespan : 0;
    busy.push_back(report.times[r].busy);
    idle.push_back(report.times[r].bubble());
    exchanging.push_back(report.times[r].transfer);
    order.push_back(report.times[r].order);
    rank.cells.push_back(fmt::format("{}", r));
    share.cells.push_back(fmt::format("{} {:5.1f} %", bar(part), 100 * part));
    backbone.cells.push_back(fmt::format("{}", report.peaks[r].in_flight));
    for (size_t n = 0; n < units.size(); ++n) units[n].cells.push_back(units_text(report.peaks[r].units[n]));
  }
  std::vector<Column> columns{rank, {"busy", time_cells(busy)}, {"idle", time_cells(idle)}};
  if (report.shares.transfer > 0) columns.push_back({"exchanging", time_cells(exchanging)});
  if (report.shares.order > 0) columns.push_back({"message order", time_cells(order)});
  columns.push_back(share);
  columns.push_back(backbone);
  columns.insert(columns.end(), units.begin(), units.end());
  return side_by_side(columns) +
         "\nLLM chunks and units: the most that a rank holds at once, forwards whose backward has not run\n";
}

}  // namespace

std::string units_text(double units) {
  auto text = fmt::format("{:.2f}", units);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text;
}

std::optional<double> unit_imbalance(const Schedule& schedule, const Costs& costs) {
  if (schedule.units.empty()) return {};
  auto loss = unit_loss(schedule.step, costs);
  return loss.mean > 0 ? std::optional(loss.slowest / loss.mean) : std::nullopt;
}

std::optional<RankSplit> split_of(const Schedule& schedule) {
  const Step& step = schedule.step;
  if (step.arrangement != Arrangement::disttrain || step.stage_ranks.empty()) return {};
  auto encoder = int64_t(step.stage_ranks.front()), backbone = int64_t(step.stage_ranks.size());
  return RankSplit{encoder, backbone, step.ranks - encoder - backbone};
}

std::string to_text(const Schedule& schedule, const Costs& costs, const StepReport& report) {
  return heading(schedule, costs) + figures(schedule, costs, report) + rank_lines(report);
}

}  // namespace bigmac
