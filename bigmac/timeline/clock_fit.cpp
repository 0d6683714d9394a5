#include "bigmac/timeline/clock_fit.h"

#include <algorithm>
#include <cmath>

namespace bigmac {
namespace {

// Clocks of machines drift apart by less, seconds a second.
constexpr double kMostDrift = 5e-4;

struct Point {
  double time = 0, offset = 0, error = 0;
};

Point point_of(const ClockProbe& probe) {
  double most = probe.arrived - probe.sent, least = probe.answered - probe.back;
  return {(probe.sent + probe.back) / 2, (most + least) / 2, probe.round_trip() / 2};
}

}  // namespace

ClockFit fit_clock(std::span<const ClockProbe> probes) {
  if (probes.empty()) return {};
  auto [first, last] = std::minmax_element(probes.begin(), probes.end(),
                                           [](const auto& a, const auto& b) { return a.sent < b.sent; });
  double middle = (first->sent + last->sent) / 2;
  auto best = [&](bool late) {
    const ClockProbe* found = nullptr;
    for (const auto& probe : probes)
      if ((probe.sent > middle) == late && (!found || probe.round_trip() < found->round_trip()))
        found = &probe;
    return found;
  };
  const auto *early = best(false), *late = best(true);
  auto a = point_of(*early);
  if (!late) return {a.time, a.offset, 0, a.error};
  auto b = point_of(*late);
  double drift = (b.offset - a.offset) / (b.time - a.time), unsure = (a.error + b.error) / (b.time - a.time);
  if (unsure < kMostDrift && std::abs(drift) < kMostDrift)
    return {a.time, a.offset, drift, std::max(a.error, b.error)};
  const auto& better = a.error <= b.error ? a : b;
  return {better.time, better.offset, 0, better.error};
}

}  // namespace bigmac
