#pragma once

#include <optional>
#include <string>
#include <vector>

namespace bigmac {

struct ChartPoint {
  double x = 0;
  double y = 0;
};

// What happened at an x in place of a value, such as "out of memory": a cross above the plot.
struct ChartMark {
  double x = 0;
  std::string text;
};

// Points are joined in the order of x.
struct ChartSeries {
  std::string name;
  std::vector<ChartPoint> points{};
  std::vector<ChartMark> marks{};
};

// A line across the panel: "memory limit 80 GiB".
struct ChartLimit {
  double y = 0;
  std::string label;
};

struct ChartPanel {
  std::string y_label;
  std::vector<ChartSeries> series{};
  std::optional<ChartLimit> limit{};
};

// Line charts over one x axis. A series keeps its colour, marker and dash in all panels: they go by name.
struct Chart {
  std::string title;
  std::string x_label;
  bool log2_x = false;  // else linear
  std::vector<ChartPanel> panels{};
  bool stacked = false;  // one above the other; else side by side
  double width = 900;    // pixels
  double height = 420;
};

// As SVG text. The y axes include 0. Colours are those that colour-blind people tell apart (Okabe and Ito),
// and series differ in marker and dash too. Throws InvalidInput, naming panel, series and point, for values
// that are not finite or beyond +-1e300, x that is not above 0 on a log2 axis, two series of one name in a
// panel; for a chart without panels, and for sizes outside 240 x 160 to 10000 x 10000.
std::string to_svg(const Chart& chart);

}  // namespace bigmac
