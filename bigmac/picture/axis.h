#pragma once

#include <string>
#include <vector>

namespace bigmac {

// A range of values and the ticks on it, in rising order.
struct Axis {
  double low = 0;
  double high = 1;
  bool log2 = false;
  std::vector<double> ticks{};

  double part(double value) const;  // 0 at `low`, 1 at `high`
};

// Ticks at 1, 2 or 5 times a power of ten, about `most` of them (at most two more), of which the
// outermost enclose the values and 0.
Axis value_axis(double low, double high, int most);
// Ticks likewise, the range as wide as the values and a margin.
Axis linear_axis(double low, double high, int most);
// Ticks at powers of two, at least two of them. Values are above 0.
Axis log2_axis(double low, double high, int most);

// What stands at the ticks: as short as tells them apart. On a log2 axis 16384 is 16K, and so on.
std::vector<std::string> tick_texts(const Axis& axis);

}  // namespace bigmac
