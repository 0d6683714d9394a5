#include "bigmac/picture/check_chart.h"

#include <cmath>
#include <set>

#include "bigmac/common/error.h"

namespace bigmac {
namespace {

constexpr double kMost = 1e300;

void check_value(const std::string& where, const char* what, double value) {
  if (!std::isfinite(value))
    throw InvalidInput(concat("[chart] ", where, ": ", what, " must be finite, got ", value));
  if (std::abs(value) > kMost)
    throw InvalidInput(concat("[chart] ", where, ": ", what, " must be within +-", kMost, ", got ", value));
}

void check_x(const Chart& chart, const std::string& where, double x) {
  check_value(where, "x", x);
  if (chart.log2_x && !(x > 0))
    throw InvalidInput(concat("[chart] ", where, ": x must be above 0 on a log2 axis, got ", x));
}

void check_size(const char* what, double value, double least) {
  if (!(value >= least && value <= 10000))
    throw InvalidInput(concat("[chart] ", what, " must be from ", least, " to 10000 pixels, got ", value));
}

}  // namespace

void check_chart(const Chart& chart) {
  check_size("width", chart.width, 240);
  check_size("height", chart.height, 160);
  if (chart.panels.empty()) throw InvalidInput("[chart] needs at least one panel, got none");
  for (const auto& panel : chart.panels) {
    auto of_panel = concat("panel '", panel.y_label, "'");
    std::set<std::string> names;
    for (const auto& series : panel.series) {
      auto of_series = concat("series '", series.name, "' of ", of_panel);
      if (!names.insert(series.name).second)
        throw InvalidInput(
            concat("[chart] ", of_series, " stands there twice; series need names of their own"));
      for (size_t n = 0; n < series.points.size(); ++n) {
        auto where = concat(of_series, ", point ", n);
        check_x(chart, where, series.points[n].x);
        check_value(where, "y", series.points[n].y);
      }
      for (size_t n = 0; n < series.marks.size(); ++n)
        check_x(chart, concat(of_series, ", mark ", n), series.marks[n].x);
    }
    if (panel.limit)
      check_value(concat("limit '", panel.limit->label, "' of ", of_panel), "y", panel.limit->y);
  }
}

}  // namespace bigmac
