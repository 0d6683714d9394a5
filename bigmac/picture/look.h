#pragma once

#include <string>

#include "bigmac/common/svg.h"
#include "bigmac/picture/label.h"

namespace bigmac {

// How a series is drawn: 105 that differ, then from the start again.
struct Look {
  std::string colour;
  std::string dash;  // as SVG's stroke-dasharray, empty: a solid line
  size_t marker = 0;
};
Look look_of(size_t number);

void draw_line(Svg& svg, const Look& look, const Line& line);
void draw_marker(Svg& svg, const Look& look, const Place& at);
void draw_cross(Svg& svg, const Look& look, const Place& at);

// Two decimals, whatever the locale.
std::string coordinate(double value);

}  // namespace bigmac
