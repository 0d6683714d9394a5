#include "bigmac/picture/look.h"

#include <array>
#include <charconv>

#include "bigmac/common/error.h"

namespace bigmac {
namespace {

// Okabe and Ito's, without the yellow that white swallows.
constexpr std::array<const char*, 7> kColours{"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                              "#000000", "#56b4e9", "#e69f00"};
constexpr std::array<const char*, 3> kDashes{"", "7 3", "2 3"};
constexpr std::array<const char*, 5> kMarkers{
    "m-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0z",  // circle
    "m-3.6 -3.6h7.2v7.2h-7.2z",             // square
    "m0 -4.8l4.6 8h-9.2z",                  // triangle
    "m0 -5.2l5.2 5.2l-5.2 5.2l-5.2 -5.2z",  // diamond
    "m0 4.8l4.6 -8h-9.2z",                  // triangle, tip down
};

}  // namespace

Look look_of(size_t number) {
  return {kColours[number % kColours.size()], kDashes[number % kDashes.size()], number % kMarkers.size()};
}

std::string coordinate(double value) {
  std::array<char, 400> buffer{};
  auto end =
      std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, std::chars_format::fixed, 2).ptr;
  return {buffer.data(), end};
}

void draw_line(Svg& svg, const Look& look, const Line& line) {
  if (line.size() < 2) return;
  std::string points;
  for (const auto& [x, y] : line)
    points += concat(points.empty() ? "" : " ", coordinate(x), ",", coordinate(y));
  svg.element("polyline", concat("points=\"", points, "\" fill=\"none\" stroke=\"", look.colour,
                                 "\" stroke-width=\"2\" stroke-linejoin=\"round\"",
                                 look.dash.empty() ? "" : concat(" stroke-dasharray=\"", look.dash, "\"")));
}

void draw_marker(Svg& svg, const Look& look, const Place& at) {
  svg.element("path", concat("d=\"M", coordinate(at.x), " ", coordinate(at.y), kMarkers[look.marker],
                             "\" fill=\"", look.colour, "\" stroke=\"#ffffff\" stroke-width=\"1\""));
}

void draw_cross(Svg& svg, const Look& look, const Place& at) {
  svg.element("path", concat("d=\"M", coordinate(at.x), " ", coordinate(at.y),
                             "m-4 -4l8 8m0 -8l-8 8\" fill=\"none\" stroke=\"", look.colour,
                             "\" stroke-width=\"2.4\""));
}

}  // namespace bigmac
