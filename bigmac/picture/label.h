#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace bigmac {

struct Place {
  double x = 0;
  double y = 0;
};

struct Area {
  double x = 0, y = 0, width = 0, height = 0;
};

// About what DejaVu Sans takes at this size, in pixels.
double text_width(std::string_view text, int size);
// The text, or as much of its beginning as fits with an ellipsis.
std::string fitted(std::string_view text, double width, int size);

// Positions as near to the wanted ones (least squares) as keep their order, `gap` apart and within low ..
// high; empty where they do not fit.
std::vector<double> spread_apart(const std::vector<double>& wanted, double gap, double low, double high);

using Line = std::vector<Place>;  // joined in order

// What a label should not lie on.
struct Obstacles {
  std::vector<Line> lines{};
  std::vector<Area> areas{};
};

// The area of the candidates, all inside `bounds` if any is, that hits the fewest obstacles; of equal ones
// the first.
Area least_crowded(const std::vector<Area>& candidates, const Area& bounds, const Obstacles& obstacles);

}  // namespace bigmac
