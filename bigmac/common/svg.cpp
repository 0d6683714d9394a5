#include "bigmac/common/svg.h"

#include <iomanip>
#include <locale>

namespace bigmac {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

// Bytes of the UTF-8 character at the start of `text`, 0 where there is none that XML may hold.
size_t character_length(std::string_view text) {
  auto byte = [&](size_t n) { return n < text.size() ? static_cast<unsigned char>(text[n]) : 0u; };
  unsigned first = byte(0);
  if (first < 0x80) return first >= 0x20 && first != 0x7f ? 1 : 0;
  size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4) return 0;
  unsigned code = first & (0xffu >> (length + 1));
  for (size_t n = 1; n < length; ++n) {
    if ((byte(n) & 0xc0u) != 0x80u) return 0;
    code = (code << 6) | (byte(n) & 0x3fu);
  }
  bool shortest = length == 2 || (length == 3 ? code >= 0x800 : code >= 0x10000 && code <= 0x10ffff);
  bool allowed = (code < 0xd800 || code > 0xdfff) && (code & 0xfffe) != 0xfffe;
  return shortest && allowed ? length : 0;
}

}  // namespace

std::string xml_escaped(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    size_t length = character_length(text.substr(at));
    auto character = length == 0 ? kReplacement : text.substr(at, length);
    if (character == "<")
      out += "&lt;";
    else if (character == ">")
      out += "&gt;";
    else if (character == "&")
      out += "&amp;";
    else if (character == "\"")
      out += "&quot;";
    else
      out += character;
    at += length == 0 ? 1 : length;
  }
  return out;
}

Svg::Svg(double width, double height, std::string_view font) {
  out_.imbue(std::locale::classic());
  out_ << std::fixed << std::setprecision(2) << "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 "
       << width << " " << height << "\" font-family=\"" << font << "\" font-size=\"12\">\n";
  box(0, 0, width, height, "#ffffff");
}

void Svg::box(double x, double y, double width, double height, std::string_view fill, double opacity) {
  out_ << "<rect x=\"" << x << "\" y=\"" << y << "\" width=\"" << width << "\" height=\"" << height
       << "\" fill=\"" << fill << "\"";
  if (opacity < 1) out_ << " fill-opacity=\"" << opacity << "\"";
  out_ << "/>\n";
}

void Svg::text(double x, double y, std::string_view text, std::string_view anchor, int size,
               std::string_view style) {
  out_ << "<text x=\"" << x << "\" y=\"" << y << "\" text-anchor=\"" << anchor << "\" font-size=\"" << size
       << "\"" << (style.empty() ? "" : " ") << style << ">" << xml_escaped(text) << "</text>\n";
}

void Svg::line(double x1, double y1, double x2, double y2, std::string_view style) {
  out_ << "<line x1=\"" << x1 << "\" y1=\"" << y1 << "\" x2=\"" << x2 << "\" y2=\"" << y2 << "\" " << style
       << "/>\n";
}

void Svg::element(std::string_view name, std::string_view attributes) {
  out_ << "<" << name << " " << attributes << "/>\n";
}

std::string Svg::finish() {
  out_ << "</svg>\n";
  return out_.str();
}

}  // namespace bigmac
