#include "apps/bigmac/text_columns.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace bigmac {
namespace {

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

}  // namespace

std::vector<std::string> time_cells(const std::vector<double>& times) {
  std::vector<std::string> cells;
  cells.reserve(times.size());
  int decimals = decimals_for(times);
  for (double time : times) cells.push_back(fmt::format("{:.{}f}", time, decimals));
  return cells;
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
    for (size_t c = 0; c < columns.size(); ++c) {
      const auto& cell = cell_of(columns[c]);
      if (c > 0) text += "  ";
      text +=
          columns[c].words ? fmt::format("{:<{}}", cell, widths[c]) : fmt::format("{:>{}}", cell, widths[c]);
    }
    text.erase(text.find_last_not_of(' ') + 1);
    text += '\n';
  };
  line([](const Column& column) -> const std::string& { return column.title; });
  for (size_t r = 0; r < columns[0].cells.size(); ++r)
    line([r](const Column& column) -> const std::string& { return column.cells[r]; });
  return text;
}

}  // namespace bigmac
