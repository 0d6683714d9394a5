#include "bigmac/view/thin.h"

#include <algorithm>

namespace bigmac {

MemoryCurve thin(const MemoryCurve& curve, size_t most) {
  size_t count = std::min(curve.times.size(), curve.bytes.size());
  if (count <= most) return curve;
  size_t groups = std::max<size_t>(1, most / 2);
  MemoryCurve thinned;
  auto keep = [&](size_t point) {
    if (!thinned.times.empty() && thinned.times.back() == curve.times[point] &&
        thinned.bytes.back() == curve.bytes[point])
      return;
    thinned.times.push_back(curve.times[point]);
    thinned.bytes.push_back(curve.bytes[point]);
  };
  keep(0);
  for (size_t group = 0; group < groups; ++group) {
    auto first = curve.bytes.begin() + std::ptrdiff_t(group * count / groups);
    auto last = curve.bytes.begin() + std::ptrdiff_t((group + 1) * count / groups);
    if (first == last) continue;
    auto [low, high] = std::minmax_element(first, last);
    auto a = size_t(low - curve.bytes.begin()), b = size_t(high - curve.bytes.begin());
    keep(std::min(a, b));
    if (a != b) keep(std::max(a, b));
  }
  return thinned;
}

}  // namespace bigmac
