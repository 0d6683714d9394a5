#pragma once

#include <sstream>
#include <string>
#include <string_view>

namespace bigmac {

// Text as XML takes it, in attributes too. Control bytes and what is not UTF-8, which no XML may hold, become
// U+FFFD.
std::string xml_escaped(std::string_view text);

// Writes an SVG picture of width x height pixels on white, its numbers with two decimals whatever the locale.
// Coordinates grow to the right and down.
class Svg {
 public:
  Svg(double width, double height, std::string_view font = "sans-serif");

  void box(double x, double y, double width, double height, std::string_view fill, double opacity = 1);
  // `style`: further attributes, such as font-weight="bold"; written as they are.
  void text(double x, double y, std::string_view text, std::string_view anchor = "start", int size = 12,
            std::string_view style = "");
  void line(double x1, double y1, double x2, double y2, std::string_view style);
  // Any element: "path", with attributes that are written as they are.
  void element(std::string_view name, std::string_view attributes);

  std::string finish();

 private:
  std::ostringstream out_;
};

}  // namespace bigmac
