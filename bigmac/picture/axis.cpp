#include "bigmac/picture/axis.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>

namespace bigmac {
namespace {

constexpr double kMargin = 0.03;

// Whether two values are one at the precision that a picture and double numbers have.
bool alike(double low, double high) {
  double largest = std::max(std::abs(low), std::abs(high));
  return high - low <= std::max(1e-9 * largest, 1e-290);
}

double step_of(double span, int most) {
  double power = std::pow(10.0, std::floor(std::log10(span / most)));
  for (double factor : {1.0, 2.0, 5.0})
    if (factor * power * most >= span * (1 - 1e-9)) return factor * power;
  return 10 * power;
}

// Multiples of the step from the first at or above `low` to the last at or below `high`.
std::vector<double> multiples(double low, double high, double step) {
  std::vector<double> ticks;
  double first = std::ceil(low / step - 1e-6), last = std::floor(high / step + 1e-6);
  for (double k = first; k <= last; ++k) ticks.push_back(k == 0 ? 0 : k * step);
  return ticks;
}

std::string number(double value, int digits) {
  char buffer[64];
  auto end = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::general, digits).ptr;
  std::string text(buffer, end);
  // 1e+06 -> 1e6, 1e-05 -> 1e-5
  auto at = text.find('e');
  if (at != std::string::npos) return text.substr(0, at + 1) + std::to_string(std::stoi(text.substr(at + 1)));
  // 4000000 -> 4,000,000, but 4096 stays
  size_t first = text[0] == '-', end_of_whole = std::min(text.find('.'), text.size());
  if (end_of_whole - first < 5) return text;
  std::string grouped;
  for (size_t n = 0; n < text.size(); ++n) {
    if (n > first && n < end_of_whole && (end_of_whole - n) % 3 == 0) grouped += ',';
    grouped += text[n];
  }
  return grouped;
}

std::string power_text(double value) {
  int exponent = std::ilogb(value);
  if (std::abs(exponent) > 49) return "2^" + std::to_string(exponent);
  if (exponent < 14) return number(value, 7);
  int thousands = exponent / 10;
  return std::to_string(1 << (exponent - 10 * thousands)) + "KMGT"[thousands - 1];
}

}  // namespace

double Axis::part(double value) const {
  if (log2) return (std::log2(value) - std::log2(low)) / (std::log2(high) - std::log2(low));
  return (value - low) / (high - low);
}

Axis value_axis(double low, double high, int most) {
  low = std::min(low, 0.0);
  high = std::max(high, 0.0);
  if (alike(low, high)) high = 1;
  double step = step_of(high - low, most);
  Axis axis{.low = std::floor(low / step + 1e-6) * step, .high = std::ceil(high / step - 1e-6) * step};
  axis.ticks = multiples(axis.low, axis.high, step);
  return axis;
}

Axis linear_axis(double low, double high, int most) {
  if (alike(low, high)) {
    double margin = low == 0 ? 1 : std::max(std::abs(low) / 2, 1e-280);
    low -= margin;
    high += margin;
  }
  double margin = kMargin * (high - low);
  Axis axis{.low = low - margin, .high = high + margin};
  axis.ticks = multiples(axis.low, axis.high, step_of(axis.high - axis.low, most));
  return axis;
}

Axis log2_axis(double low, double high, int most) {
  double from = std::log2(low), to = std::log2(high);
  if (std::floor(to) - std::ceil(from) < 1) {
    from = std::ceil(from) - 1;
    to = from + 2;
  }
  double margin = kMargin * (to - from);
  Axis axis{.low = std::exp2(from - margin), .high = std::exp2(to + margin), .log2 = true};
  double first = std::ceil(from), last = std::floor(to);
  double stride = std::max(1.0, std::ceil((last - first + 1) / most));
  for (double exponent = first; exponent <= last; exponent += stride)
    axis.ticks.push_back(std::exp2(exponent));
  return axis;
}

std::vector<std::string> tick_texts(const Axis& axis) {
  std::vector<std::string> texts;
  for (int digits = axis.log2 ? 17 : 7; digits <= 17; ++digits) {
    texts.clear();
    for (double tick : axis.ticks) texts.push_back(axis.log2 ? power_text(tick) : number(tick, digits));
    if (std::set<std::string>(texts.begin(), texts.end()).size() == texts.size()) break;
  }
  return texts;
}

}  // namespace bigmac
