#include "bigmac/picture/chart.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "bigmac/common/error.h"
#include "bigmac/picture/axis.h"
#include "bigmac/picture/check_chart.h"
#include "bigmac/picture/look.h"

namespace bigmac {
namespace {

constexpr double kEdge = 16, kGap = 18, kLegendRow = 19, kHeading = 24, kTicks = 20, kXLabel = 18;
constexpr double kCrossRow = 16, kTextRow = 13, kLabelGap = 14, kMostLabel = 140, kLeastPlot = 170;
constexpr int kText = 12, kSmall = 11;
constexpr const char* kInk = "#1a1a1a";
// A white edge keeps text readable on lines.
constexpr const char* kHalo =
    "fill=\"#1a1a1a\" stroke=\"#ffffff\" stroke-width=\"3\" stroke-linejoin=\"round\" paint-order=\"stroke\"";

using Looks = std::map<std::string, Look>;

// Series with the crosses of one text, a row of them above the plot.
struct CrossRow {
  const ChartSeries* series;
  std::string label;
  std::vector<double> xs;
};

std::vector<CrossRow> cross_rows(const ChartPanel& panel) {
  std::vector<CrossRow> rows;
  for (const auto& series : panel.series) {
    size_t first = rows.size();
    for (const auto& mark : series.marks) {
      auto label = concat(series.name, ": ", mark.text);
      auto row = std::find_if(rows.begin() + int64_t(first), rows.end(),
                              [&](const CrossRow& other) { return other.label == label; });
      if (row == rows.end()) row = rows.insert(row, {&series, label, {}});
      row->xs.push_back(mark.x);
    }
  }
  for (auto& row : rows) std::sort(row.xs.begin(), row.xs.end());
  return rows;
}

std::vector<ChartPoint> in_order(const ChartSeries& series) {
  auto points = series.points;
  std::stable_sort(points.begin(), points.end(), [](auto& a, auto& b) { return a.x < b.x; });
  return points;
}

struct Range {
  double low = INFINITY, high = -INFINITY;
  void add(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
};

Axis x_axis(const Chart& chart, double width) {
  Range range;
  for (const auto& panel : chart.panels)
    for (const auto& series : panel.series) {
      for (const auto& point : series.points) range.add(point.x);
      for (const auto& mark : series.marks) range.add(mark.x);
    }
  if (range.low > range.high) range = {1, 1};
  int most = std::max(2, int(width / 42));
  return chart.log2_x ? log2_axis(range.low, range.high, most) : linear_axis(range.low, range.high, most);
}

Axis y_axis(const ChartPanel& panel, double height) {
  Range range;
  range.add(0);
  for (const auto& series : panel.series)
    for (const auto& point : series.points) range.add(point.y);
  if (panel.limit) range.add(panel.limit->y);
  return value_axis(range.low, range.high, std::max(2, int(height / 36)));
}

// Where a panel's parts lie.
struct Frame {
  Area area;  // all of it
  Area plot;
  Axis x, y;
  bool labels_right = false;

  Place at(double vx, double vy) const {
    return {plot.x + plot.width * x.part(vx), plot.y + plot.height * (1 - y.part(vy))};
  }
  bool ends_right(const std::vector<ChartPoint>& points) const {
    return !points.empty() && at(points.back().x, 0).x > plot.x + plot.width * (1 - 0.06);
  }
};

double left_of_cross(const Frame& frame, const CrossRow& row) {
  return frame.at(row.xs.front(), 0).x - 9 - frame.plot.x;
}

Frame frame_of(const Chart& chart, const ChartPanel& panel, const Area& area) {
  Frame frame{.area = area, .plot = area, .x = {}, .y = {}};
  frame.plot.y += kHeading;
  frame.plot.height -= kHeading + kTicks + kXLabel;
  double ticks = 0, labels = 0;
  // What lies one above the other has one x axis.
  auto aligned = chart.stacked ? chart.panels : std::vector<ChartPanel>{panel};
  for (const auto& other : aligned)
    for (const auto& text : tick_texts(y_axis(other, frame.plot.height)))
      ticks = std::max(ticks, text_width(text, kSmall));
  frame.plot.x += ticks + 8;
  frame.plot.width = area.x + area.width - frame.plot.x;
  frame.x = x_axis(chart, frame.plot.width);
  for (const auto& other : aligned)
    for (const auto& series : other.series)
      if (frame.ends_right(in_order(series))) labels = std::max(labels, text_width(series.name, kSmall));
  labels = std::min(labels, kMostLabel);
  if (labels > 0 && frame.plot.width - labels - 12 >= kLeastPlot) {
    frame.labels_right = true;
    frame.plot.width -= labels + 12;
  }
  frame.x = x_axis(chart, frame.plot.width);
  double rows = 0;
  for (const auto& row : cross_rows(panel))
    rows += kCrossRow + (text_width(row.label, kSmall) <= left_of_cross(frame, row) ? 0 : kTextRow);
  frame.plot.y += rows;
  frame.plot.height = std::max(frame.plot.height - rows, 20.0);
  frame.y = y_axis(panel, frame.plot.height);
  return frame;
}

void draw_axes(Svg& svg, const Chart& chart, const ChartPanel& panel, const Frame& frame) {
  const auto& plot = frame.plot;
  svg.text(frame.area.x, frame.area.y + 11, fitted(panel.y_label, frame.area.width, kText), "start", kText,
           concat("fill=\"", kInk, "\" font-weight=\"bold\""));
  auto y_texts = tick_texts(frame.y), x_texts = tick_texts(frame.x);
  double low = frame.y.low, bottom = plot.y + plot.height;
  for (size_t n = 0; n < y_texts.size(); ++n) {
    double y = frame.at(frame.x.low, frame.y.ticks[n]).y;
    svg.line(plot.x, y, plot.x + plot.width, y, "stroke=\"#dddddd\" stroke-width=\"1\"");
    svg.text(plot.x - 6, y + 4, y_texts[n], "end", kSmall, concat("fill=\"", kInk, "\""));
  }
  for (size_t n = 0; n < x_texts.size(); ++n) {
    double x = frame.at(frame.x.ticks[n], low).x;
    svg.line(x, plot.y, x, bottom, "stroke=\"#eeeeee\" stroke-width=\"1\"");
    svg.line(x, bottom, x, bottom + 4, "stroke=\"#666666\" stroke-width=\"1\"");
    svg.text(x, bottom + 16, x_texts[n], "middle", kSmall, concat("fill=\"", kInk, "\""));
  }
  double zero = frame.at(frame.x.low, 0).y;
  svg.line(plot.x, zero, plot.x + plot.width, zero, "stroke=\"#666666\" stroke-width=\"1\"");
  svg.text(plot.x + plot.width / 2, bottom + kTicks + 12, fitted(chart.x_label, plot.width, kText), "middle",
           kText, concat("fill=\"", kInk, "\""));
}

void draw_crosses(Svg& svg, const ChartPanel& panel, const Frame& frame, const Looks& looks) {
  double y = frame.area.y + kHeading;
  for (const auto& row : cross_rows(panel)) {
    double room = left_of_cross(frame, row);
    bool beside = text_width(row.label, kSmall) <= room;
    if (!beside) y += kTextRow;
    double middle = y + kCrossRow / 2;
    if (beside)
      svg.text(frame.plot.x + room, middle + 4, row.label, "end", kSmall, kHalo);
    else
      svg.text(frame.plot.x, y - 2, fitted(row.label, frame.plot.width, kSmall), "start", kSmall, kHalo);
    for (double x : row.xs) draw_cross(svg, looks.at(row.series->name), {frame.at(x, frame.y.low).x, middle});
    y += kCrossRow;
  }
}

// Labels behind the lines that reach the right edge, each at the height of its end.
void label_ends(Svg& svg, const std::vector<std::pair<std::string, Place>>& ends, const Frame& frame) {
  std::vector<double> wanted;
  wanted.reserve(ends.size());
  for (const auto& end : ends) wanted.push_back(end.second.y);
  const auto& plot = frame.plot;
  double right = plot.x + plot.width + 8, top = plot.y, bottom = plot.y + plot.height;
  auto places = spread_apart(wanted, kLabelGap, top, bottom);
  for (size_t n = 0; n < places.size(); ++n) {
    const auto& [name, end] = ends[n];
    if (std::abs(places[n] - end.y) > 4)
      svg.line(end.x + 6, end.y, right - 2, places[n], "stroke=\"#999999\" stroke-width=\"0.8\"");
    svg.text(right, places[n] + 4, fitted(name, frame.area.x + frame.area.width - right, kSmall), "start",
             kSmall, kHalo);
  }
}

std::vector<Area> around(const Place& at, double width) {
  double height = kSmall + 2;
  std::vector<Area> areas;
  for (double away : {8.0, 16.0, 28.0})
    for (double dy : {-height / 2, -height - away / 2, away / 2})
      for (double dx : {away, -width / 2, -width - away})
        if (dy != -height / 2 || dx != -width / 2) areas.push_back({at.x + dx, at.y + dy, width, height});
  return areas;
}

void draw_label(Svg& svg, const std::string& text, const std::vector<Area>& candidates, const Frame& frame,
                Obstacles& obstacles) {
  auto place = least_crowded(candidates, frame.plot, obstacles);
  obstacles.areas.push_back(place);
  svg.text(place.x, place.y + kSmall - 1, text, "start", kSmall, kHalo);
}

void draw_panel(Svg& svg, const Chart& chart, const ChartPanel& panel, const Area& area, const Looks& looks) {
  auto frame = frame_of(chart, panel, area);
  draw_axes(svg, chart, panel, frame);
  const auto& plot = frame.plot;
  Obstacles obstacles;
  if (panel.limit) {
    double y = frame.at(frame.x.low, panel.limit->y).y;
    svg.line(plot.x, y, plot.x + plot.width, y,
             "stroke=\"#a00000\" stroke-width=\"1.6\" stroke-dasharray=\"9 4\"");
    obstacles.lines.push_back({{plot.x, y}, {plot.x + plot.width, y}});
  }
  std::vector<std::pair<std::string, Place>> ends, early;
  bool empty = true;
  for (const auto& series : panel.series) {
    Line line;
    for (const auto& point : in_order(series)) line.push_back(frame.at(point.x, point.y));
    empty &= line.empty() && series.marks.empty();
    draw_line(svg, looks.at(series.name), line);
    for (const auto& place : line) draw_marker(svg, looks.at(series.name), place);
    if (line.empty()) continue;
    auto& labels = frame.labels_right && frame.ends_right(in_order(series)) ? ends : early;
    labels.emplace_back(series.name, line.back());
    for (const auto& [x, y] : line) obstacles.areas.push_back({x - 4, y - 4, 8, 8});
    obstacles.lines.push_back(std::move(line));
  }
  if (empty)
    svg.text(plot.x + plot.width / 2, plot.y + plot.height / 2, "no data", "middle", kText,
             "fill=\"#666666\"");
  draw_crosses(svg, panel, frame, looks);
  label_ends(svg, ends, frame);
  if (panel.limit) {
    auto label = fitted(panel.limit->label, plot.width - 8, kSmall);
    double y = frame.at(frame.x.low, panel.limit->y).y, width = text_width(label, kSmall);
    std::vector<Area> candidates;
    for (double left : {plot.x + 4, plot.x + plot.width - width - 4, plot.x + (plot.width - width) / 2})
      for (double top : {y + 2, y - kSmall - 5.0}) candidates.push_back({left, top, width, kSmall + 2.0});
    draw_label(svg, label, candidates, frame, obstacles);
  }
  for (const auto& [name, end] : early) {
    auto label = fitted(name, kMostLabel, kSmall);
    draw_label(svg, label, around(end, text_width(label, kSmall)), frame, obstacles);
  }
}

// Draws the legend from `top` on and returns where it ends.
double draw_legend(Svg& svg, const Chart& chart, const std::vector<std::string>& names, const Looks& looks,
                   double top) {
  double x = kEdge, y = top;
  for (const auto& name : names) {
    auto label = fitted(name, chart.width - 2 * kEdge - 40, kText);
    double width = 40 + text_width(label, kText);
    if (x > kEdge && x + width > chart.width - kEdge) {
      x = kEdge;
      y += kLegendRow;
    }
    draw_line(svg, looks.at(name), {{x, y + 6}, {x + 30, y + 6}});
    draw_marker(svg, looks.at(name), {x + 15, y + 6});
    svg.text(x + 36, y + 10, label, "start", kText, concat("fill=\"", kInk, "\""));
    x += width + 18;
  }
  return names.empty() ? top : y + kLegendRow;
}

}  // namespace

std::string to_svg(const Chart& chart) {
  check_chart(chart);
  std::vector<std::string> names;
  Looks looks;
  for (const auto& panel : chart.panels)
    for (const auto& series : panel.series)
      if (looks.emplace(series.name, look_of(looks.size())).second) names.push_back(series.name);

  Svg svg(chart.width, chart.height, "DejaVu Sans, Verdana, sans-serif");
  double top = 12;
  if (!chart.title.empty()) {
    svg.text(kEdge, top + 14, fitted(chart.title, chart.width - 2 * kEdge, 16), "start", 16,
             concat("fill=\"", kInk, "\" font-weight=\"bold\""));
    top += 28;
  }
  top = draw_legend(svg, chart, names, looks, top) + 6;
  auto count = double(chart.panels.size());
  Area area{kEdge, top, chart.width - 2 * kEdge, std::max(chart.height - top - 8, 60.0)};
  double gaps = kGap * (count - 1);
  (chart.stacked ? area.height : area.width) -= gaps;
  (chart.stacked ? area.height : area.width) /= count;
  for (const auto& panel : chart.panels) {
    draw_panel(svg, chart, panel, area, looks);
    (chart.stacked ? area.y : area.x) += (chart.stacked ? area.height : area.width) + kGap;
  }
  return svg.finish();
}

}  // namespace bigmac
