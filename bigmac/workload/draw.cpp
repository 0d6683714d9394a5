#include "bigmac/workload/draw.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "bigmac/common/error.h"

namespace bigmac {
namespace {

uint64_t mixed(uint64_t bits) {
  bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9;
  bits = (bits ^ (bits >> 27)) * 0x94d049bb133111eb;
  return bits ^ (bits >> 31);
}

// SplitMix64 (Steele, Lea and Flood 2014).
class Random {
 public:
  Random(uint64_t seed, uint64_t stream, uint64_t sample)
      : state_(mixed(mixed(mixed(seed + kGamma) + stream * kGamma) + sample * kGamma)) {}

  // In (0, 1): the middles of 2^53 equal parts.
  double uniform() {
    state_ += kGamma;
    return (double(mixed(state_) >> 11) + 0.5) * 0x1p-53;
  }
  // Box and Muller 1958.
  double normal() {
    double radius = std::sqrt(-2 * std::log(uniform()));
    return radius * std::cos(2 * std::numbers::pi * uniform());
  }
  // By inversion, in parts that exp(-mean) can hold: a sum of Poisson numbers is one.
  int64_t poisson(double mean) {
    int64_t count = 0;
    for (; mean > kMostMean; mean -= kMostMean) count += inverted_poisson(kMostMean);
    return count + inverted_poisson(mean);
  }

 private:
  static constexpr uint64_t kGamma = 0x9e3779b97f4a7c15;
  static constexpr double kMostMean = 16;

  int64_t inverted_poisson(double mean) {
    double left = uniform(), part = std::exp(-mean);
    int64_t count = 0;
    while (left >= part && part > 0) {
      left -= part;
      part *= mean / double(++count);
    }
    return count;
  }

  uint64_t state_;
};

void check(const ItemDistribution& items, int64_t samples) {
  auto need = [](bool holds, const char* what, auto got) {
    if (!holds) throw InvalidInput(concat("[items] ", what, ", got ", got));
  };
  need(samples >= 0, "samples must be at least 0", samples);
  need(items.mean >= 1 && items.mean <= 1e6, "the mean must be from 1 to 1000000", items.mean);
  need(!items.fixed || items.mean == std::floor(items.mean), "a fixed number must be whole", items.mean);
  need(items.empty >= 0 && items.empty <= 1, "the share without items must be from 0 to 1", items.empty);
  need(items.tokens > 0 && std::isfinite(items.tokens), "tokens must be above 0", items.tokens);
  need(items.sigma >= 0 && items.sigma <= 10, "sigma must be from 0 to 10", items.sigma);
  need(items.least >= 1 && items.least <= items.most, "the least size must be from 1 to the largest",
       items.least);
}

}  // namespace

std::vector<std::vector<double>> draw_items(const ItemDistribution& distribution, int64_t samples,
                                            uint64_t seed, uint64_t stream) {
  check(distribution, samples);
  const auto& [mean, fixed, empty, tokens, sigma, least, most] = distribution;
  double mu = std::log(tokens) - sigma * sigma / 2;
  std::vector<std::vector<double>> drawn(static_cast<size_t>(samples));
  for (size_t sample = 0; sample < drawn.size(); ++sample) {
    Random random(seed, stream, sample);
    if (random.uniform() < empty) continue;
    drawn[sample].resize(fixed ? size_t(mean) : 1 + size_t(random.poisson(mean - 1)));
    for (auto& size : drawn[sample])
      size =
          std::clamp(std::round(sigma == 0 ? tokens : std::exp(mu + sigma * random.normal())), least, most);
  }
  return drawn;
}

}  // namespace bigmac
