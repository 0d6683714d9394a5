#include "apps/bigmac/report_text.h"

#include <fmt/format.h>

#include <cmath>
#include <iterator>

namespace bigmac {
namespace {

constexpr int kBarLength = 20;

// The digits behind the point that show all values fully, as far as the largest keeps within 7 digits.
int decimals_for(const std::vector<double>& values) {
  double largest = 0;
  for (double value : values) largest = std::max(largest, std::abs(value));
  int most = largest > 0 ? std::max(0, 6 - int(std::floor(std::log10(largest)))) : 0;
  for (int decimals = 0; decimals < most; ++decimals) {
    double scale = std::pow(10.0, decimals);
    bool shown = true;
    for (double value : values)
      shown &= std::abs(value * scale - std::round(value * scale)) < 1e-9 * largest * scale;
    if (shown) return decimals;
  }
  return most;
}

struct Column {
  std::string title;
  std::vector<std::string> cells;
};

// Times of one column, all with the same digits behind the point.

Column time_column(const std::string& title, const std::vector<double>& times) {
  Column column{title, {}};
  int decimals = decimals_for(times);
  for (double time : times) column.cells.push_back(fmt::format("{:.{}f}", time, decimals));
  return column;
}

std::string bar(double share) {
  int filled = int(std::lround(share * kBarLength));
  return std::string(filled, '#') + std::string(kBarLength - filled, '.');
}

std::string side_by_side(const std::vector<Column>& columns) {
  std::vector<size_t> widths;
  for (const auto& column : columns) {
    size_t width = column.title.size();
    for (const auto& cell : column.cells) width = std::max(width, cell.size());
    widths.push_back(width);
  }
  std::string text;
  auto line = [&](auto cell_of) {
    for (size_t c = 0; c < columns.size(); ++c)
      text += fmt::format("{}{:>{}}", c == 0 ? "" : "  ", cell_of(columns[c]), widths[c]);
    text += '\n';
  };
  line([](const Column& column) { return column.title; });
  for (size_t r = 0; r < columns[0].cells.size(); ++r)
    line([r](const Column& column) { return column.cells[r]; });
  return text;
}

std::string heading(const Step& step, const Costs& costs) {
  std::string text = fmt::format("{} schedule, P={} V={} M={}, base {}", name(step.arrangement), step.ranks,
                                 step.chunks, step.microbatches, name(step.base));
  if (step.base == Base::interleaved) text += fmt::format(" G={}", step.group_size());
  text +=
      fmt::format("\nforward + backward time: LLM chunk {:g} + {:g}", costs.forward[0], costs.backward[0]);
  if (step.has_encoder())
    text += fmt::format(", encoder {:g} + {:g}", costs.encoder_forward, costs.encoder_backward);
  if (step.has_generator())
    text += fmt::format(", generator {:g} + {:g}", costs.generator_forward, costs.generator_backward);
  if (costs.latency > 0) text += fmt::format("; latency {:g}", costs.latency);
  return text + "\n\n";
}

std::string figures(const StepReport& report) {
  auto times = time_column("", {report.makespan, report.ideal, report.lower_bound}).cells;
  struct Figure {
    std::string name, value, meaning;
  };
  std::vector<Figure> lines{
      {"makespan", times[0], "time of the whole step"},
      {"ideal", times[1],
       "plain LLM step + (encoder + generator work) / P: what unlimited memory would give"},
      {"ratio to ideal", fmt::format("{:.3f}", report.ratio_to_ideal()), "makespan / ideal"},
      {"lower bound", times[2], "max(total work / P, longest chain of dependencies): no schedule is faster"},
      {"idle/total", fmt::format("{:.2f} %", 100 * report.idle_over_total), "idle time / (P * makespan)"},
      {"idle/busy", fmt::format("{:.2f} %", 100 * report.idle_over_busy),
       "idle time / time inside operators"}};
  if (report.warmup_units > 0)
    lines.push_back({"warm-up units", fmt::format("{}", report.warmup_units),
                     "units of P microbatches that the encoder runs ahead of its backward"});
  size_t width = 0;
  for (const auto& line : lines) width = std::max(width, line.value.size());
  std::string text;
  for (const auto& line : lines)
    text += fmt::format("{:<14}  {:>{}}  {}\n", line.name, line.value, width, line.meaning);
  return text + "\n";
}

std::string rank_lines(const Step& step, const StepReport& report) {
  std::vector<double> busy, idle;
  Column rank{"rank", {}}, share{fmt::format("{:<{}}", "busy / makespan", kBarLength + 8), {}},
      backbone{"LLM chunks", {}}, encoder{"encoder units", {}}, generator{"generator units", {}};
  for (size_t r = 0; r < report.times.size(); ++r) {
    double part = report.times[r].busy / report.makespan;
    busy.push_back(report.times[r].busy);
    idle.push_back(report.times[r].idle);
    rank.cells.push_back(fmt::format("{}", r));
    share.cells.push_back(fmt::format("{} {:5.1f} %", bar(part), 100 * part));
    backbone.cells.push_back(fmt::format("{}", report.peaks[r].backbone_in_flight));
    encoder.cells.push_back(fmt::format("{}", report.peaks[r].encoder_units));
    generator.cells.push_back(fmt::format("{}", report.peaks[r].generator_units));
  }
  std::vector<Column> columns{rank, time_column("busy", busy), time_column("idle", idle), share, backbone};
  if (step.has_encoder()) columns.push_back(encoder);
  if (step.has_generator()) columns.push_back(generator);
  return side_by_side(columns) +
         "\nLLM chunks and units: the most that a rank holds at once, forwards whose backward has not run\n";
}

}  // namespace

std::string to_text(const Step& step, const Costs& costs, const StepReport& report) {
  return heading(step, costs) + figures(report) + rank_lines(step, report);
}

}  // namespace bigmac
