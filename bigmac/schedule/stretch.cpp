#include "bigmac/schedule/stretch.h"

#include <algorithm>
#include <cmath>

#include "bigmac/schedule/spread.h"

namespace bigmac {
namespace {

constexpr int64_t kFewestSamples = 64;
constexpr int64_t kSamplesPerForward = 8;  // a forward of one rank
constexpr double kRounding = 1e-9;

// Sums values at moments that never fall, up to a moment that never falls either.
class Arrivals {
 public:
  void add(double moment, double value) { list_.push_back({moment, value}); }
  double until(double moment) {
    for (; next_ < list_.size() && list_[next_].moment <= moment; ++next_) sum_ += list_[next_].value;
    return sum_;
  }

 private:
  struct Arrival {
    double moment, value;
  };
  std::vector<Arrival> list_;
  size_t next_ = 0;
  double sum_ = 0;
};

// Of one microbatch: work, and sizes in units, those of frozen encoders apart.
struct Load {
  double forward = 0, backward = 0, generate = 0, units = 0, frozen = 0;
};

std::vector<Load> loads_of(const Filling& filling) {
  std::vector<Load> loads(size_t(filling.step().microbatches));
  for (const auto& item : filling.items) {
    auto& load = loads[item.microbatch];
    if (!item.encoder) {
      load.generate += item.first;
      continue;
    }
    load.forward += item.first;
    load.backward += item.second;
    (item.trained ? load.units : load.frozen) += item.size / filling.units[item.module];
  }
  return loads;
}

// The microbatches from the first on that have been taken so far.
struct Prefix {
  size_t next = 0;
  double work = 0, units = 0, frozen = 0;
};

bool has_room(double units, double capacity) {
  return units <= capacity * (1 + kRounding);
}

// What remains when the backbone has ended: the slowest rank's encoder backwards of the last microbatch.
double tail_of(const Filling& filling) {
  std::vector<double> backwards, sums(size_t(filling.step().ranks), 0);
  for (const auto& item : filling.items)
    if (item.microbatch + 1 == filling.step().microbatches) backwards.push_back(item.second);
  auto ranks = longest_first(backwards, filling.step().ranks);
  for (size_t i = 0; i < ranks.size(); ++i) sums[ranks[i]] += backwards[i];
  return *std::max_element(sums.begin(), sums.end());
}

// The integral of the ranks' idle time, from slopes that change where operators start and end.
std::vector<double> idle_of(const Filling& filling, double width, size_t samples) {
  std::vector<double> jump(samples + 1, 0), slope(samples + 1, 0), idle(samples, 0);
  auto busy_ranks = [&](double moment, double change) {
    size_t i = std::min(size_t(std::ceil(moment / width - kRounding)), samples);
    jump[i] += change * (double(i) * width - moment);
    slope[i] += change;
  };
  for (double start : filling.backbone.starts) busy_ranks(start, 1);
  for (double end : filling.backbone.ends) busy_ranks(end, -1);
  double busy = 0, ranks_busy = 0;
  for (size_t i = 0; i < samples; ++i) {
    busy += ranks_busy * width + jump[i];
    ranks_busy += slope[i];
    idle[i] = double(filling.step().ranks) * std::min(double(i) * width, filling.backbone.length) - busy;
  }
  return idle;
}

}  // namespace

Flow::Flow(const Filling& filling) {
  most = std::max(0.0, filling.mean_work - filling.backbone.length - tail_of(filling));
  if (most == 0) return;
  const auto& backbone = filling.backbone;
  auto loads = loads_of(filling);
  int64_t count =
      std::max(kFewestSamples, kSamplesPerForward * filling.step().chunks * filling.step().microbatches);
  width = filling.backbone.length / double(count);
  if (width == 0) return;
  auto samples = size_t(count) + 2;
  idle = idle_of(filling, width, samples);

  Arrivals forwards_due, units_due, generators_due, backwards_free, units_free, generators_free, frozen_free;
  for (size_t m = 0; m < loads.size(); ++m) {
    double due = backbone.starts[backbone.first_forward[m]],
           gradient = backbone.ends[backbone.first_backward[m]];
    forwards_due.add(due, loads[m].forward);
    units_due.add(due, loads[m].units);
    backwards_free.add(gradient, loads[m].backward);
    units_free.add(gradient, loads[m].units);
    frozen_free.add(backbone.ends[backbone.first_forward[m]], loads[m].frozen);
    generators_due.add(backbone.starts[backbone.last_backward[m]], loads[m].generate);
    generators_free.add(backbone.ends[backbone.last_forward[m]], loads[m].generate);
  }
  double rounding = kRounding * filling.backbone.length;
  Prefix fits, must_leave;
  for (size_t i = 0; i < samples; ++i) {
    double moment = double(i) * width, soon = moment + width / 2, now = moment + rounding;
    double let_go = units_free.until(now), held = units_due.until(soon), taken = frozen_free.until(now);
    while (fits.next < loads.size() &&
           has_room(fits.units + loads[fits.next].units - let_go, filling.capacity) &&
           has_room(fits.frozen + loads[fits.next].frozen - taken, filling.waiting_capacity)) {
      fits.units += loads[fits.next].units;
      fits.frozen += loads[fits.next].frozen;
      fits.work += loads[fits.next++].forward;
    }
    while (must_leave.next < loads.size() && !has_room(held - must_leave.units, filling.capacity)) {
      must_leave.units += loads[must_leave.next].units;
      must_leave.work += loads[must_leave.next++].backward;
    }
    needed.push_back(forwards_due.until(soon) + must_leave.work + generators_due.until(soon));
    possible.push_back(
        std::max(needed.back(), fits.work + backwards_free.until(now) + generators_free.until(now)));
  }
}

Stretch::Stretch(const Flow& flow, int64_t ranks, double eagerness) : width_(flow.width) {
  double longest = 0;
  for (size_t i = 0; i < flow.needed.size(); ++i) {
    double wanted = flow.needed[i] + eagerness * (flow.possible[i] - flow.needed[i]);
    longest = std::max(longest, (wanted - flow.idle[i]) / double(ranks));
    values_.push_back(std::min(longest, flow.most));
  }
}

double Stretch::operator()(double moment) const {
  if (values_.empty()) return 0;
  double sample = moment / width_;
  size_t i = std::min(size_t(sample), values_.size() - 2);
  return values_[i] + (values_[i + 1] - values_[i]) * std::min(1.0, sample - double(i));
}

}  // namespace bigmac
