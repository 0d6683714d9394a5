#include "bigmac/timeline/clock_fit.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace bigmac {
namespace {

// Clocks of machines drift apart by less, seconds a second.
constexpr double kMostDrift = 5e-4;

// An offset lies between these, since messages arrive after they were sent.
struct Bounds {
  double time = 0, least = 0, most = 0;

  double offset() const { return (most + least) / 2; }
  double error() const { return (most - least) / 2; }
  double farthest_from(double offset) const { return std::max(offset - least, most - offset); }
};

Bounds bounds_of(const ClockProbe& probe) {
  return {(probe.sent + probe.back) / 2, probe.answered - probe.back, probe.arrived - probe.sent};
}

// Those of the shortest round trip, as far as the others, each so much wider as the clocks may have drifted
// since, do not narrow them: its message there and its answer need not both have been the fastest.
Bounds narrowed(const std::vector<Bounds>& all) {
  auto best = *std::min_element(all.begin(), all.end(),
                                [](const auto& a, const auto& b) { return a.error() < b.error(); });
  auto narrow = best;
  for (const auto& bounds : all) {
    double drifted = kMostDrift * std::abs(bounds.time - best.time);
    narrow.least = std::max(narrow.least, bounds.least - drifted);
    narrow.most = std::min(narrow.most, bounds.most + drifted);
  }
  return narrow.least <= narrow.most ? narrow : best;
}

// Two ranks of one machine have one clock: where that may be, it is so.
double offset_of(const Bounds& bounds) {
  return bounds.least <= 0 && bounds.most >= 0 ? 0 : bounds.offset();
}

}  // namespace

ClockFit fit_clock(std::span<const ClockProbe> probes) {
  if (probes.empty()) return {};
  auto [first, last] = std::minmax_element(probes.begin(), probes.end(),
                                           [](const auto& a, const auto& b) { return a.sent < b.sent; });
  double middle = (first->sent + last->sent) / 2;
  std::vector<Bounds> early, late;
  for (const auto& probe : probes) (probe.sent > middle ? late : early).push_back(bounds_of(probe));
  auto a = narrowed(early);
  if (late.empty()) return {a.time, offset_of(a), 0, a.farthest_from(offset_of(a))};
  auto b = narrowed(late);
  double drift = (b.offset() - a.offset()) / (b.time - a.time);
  double unsure = (a.error() + b.error()) / (b.time - a.time);
  bool told = std::abs(drift) > unsure;  // else the clocks may as well go alike
  if (told && unsure < kMostDrift && std::abs(drift) < kMostDrift)
    return {a.time, a.offset(), drift, std::max(a.error(), b.error())};
  early.insert(early.end(), late.begin(), late.end());
  auto all = narrowed(early);
  double offset = offset_of(all);
  return {all.time, offset, 0, std::max(a.farthest_from(offset), b.farthest_from(offset))};
}

}  // namespace bigmac
