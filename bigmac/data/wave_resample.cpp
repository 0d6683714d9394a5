#include "bigmac/data/wave_resample.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

#include "bigmac/common/error.h"

namespace bigmac::data {
namespace {

constexpr double kAttenuation = 90;  // dB, of the stopband
constexpr double kPassband = 0.875;  // share of the Nyquist frequency
constexpr double kBeta = 0.1102 * (kAttenuation - 8.7);

// The modified Bessel function of order 0, by its power series.
double bessel(double x) {
  double sum = 1, term = 1;
  for (int k = 1; term > 1e-17 * sum; ++k) {
    term *= (x / (2 * k)) * (x / (2 * k));
    sum += term;
  }
  return sum;
}

// The impulse response over time in input samples; the gain is settled where it is used.
struct LowPass {
  double cutoff;  // cycles a sample, in the middle between passband and stopband
  double half;    // its extent to either side

  double operator()(double time) const {
    double across = 1 - (time / half) * (time / half);
    if (across <= 0) return 0;
    double angle = 2 * std::numbers::pi * cutoff * time;
    double sinc = std::abs(angle) < 1e-9 ? 1 : std::sin(angle) / angle;
    return sinc * bessel(kBeta * std::sqrt(across));
  }
};

LowPass low_pass(int64_t from, int64_t to) {
  double nyquist = 0.5 * std::min(1.0, static_cast<double>(to) / static_cast<double>(from));
  double transition = (1 - kPassband) * nyquist;
  return {0.5 * (1 + kPassband) * nyquist,
          (kAttenuation - 7.95) / (2 * 2.285 * 2 * std::numbers::pi * transition)};
}

}  // namespace

Waveform resample(const Waveform& waveform, int64_t rate) {
  constexpr int64_t kMostRate = 384000, kMostRatio = 16;
  for (int64_t either : {waveform.sample_rate, rate})
    if (either < 1 || either > kMostRate)
      throw InvalidInput(concat("a sample rate is ", either, " Hz; it must be in 1..", kMostRate));
  if (rate > kMostRatio * waveform.sample_rate || waveform.sample_rate > kMostRatio * rate)
    throw InvalidInput(concat("cannot resample from ", waveform.sample_rate, " to ", rate,
                              " Hz: the rates differ by more than ", kMostRatio, " times"));
  if (rate == waveform.sample_rate || waveform.samples.empty()) return {rate, waveform.samples};

  int64_t divisor = std::gcd(waveform.sample_rate, rate);
  int64_t up = rate / divisor, down = waveform.sample_rate / divisor;
  auto length = static_cast<int64_t>(waveform.samples.size());
  int64_t count = (length * up + down - 1) / down;
  LowPass filter = low_pass(waveform.sample_rate, rate);
  auto half = static_cast<int64_t>(std::ceil(filter.half));
  int64_t taps = 2 * half;

  // Output k lies at k * down / up; row k % up has the weights of the inputs around it.
  std::vector<double> weights(static_cast<size_t>(std::min(up, count) * taps));
  for (int64_t k = 0; k < std::min(up, count); ++k) {
    double* row = weights.data() + k * taps;
    double phase = static_cast<double>(k * down % up) / static_cast<double>(up);
    for (int64_t j = 0; j < taps; ++j) row[j] = filter(static_cast<double>(j - half + 1) - phase);
    double sum = std::accumulate(row, row + taps, 0.0);
    for (int64_t j = 0; j < taps; ++j) row[j] /= sum;
  }

  Waveform out{rate, std::vector<float>(static_cast<size_t>(count))};
  for (int64_t k = 0; k < count; ++k) {
    int64_t start = k * down / up - half + 1;
    const double* row = weights.data() + k % up * taps;
    double sum = 0;
    for (int64_t j = std::max<int64_t>(0, -start); j < std::min(taps, length - start); ++j)
      sum += row[j] * static_cast<double>(waveform.samples[static_cast<size_t>(start + j)]);
    out.samples[static_cast<size_t>(k)] = static_cast<float>(sum);
  }
  return out;
}

}  // namespace bigmac::data
