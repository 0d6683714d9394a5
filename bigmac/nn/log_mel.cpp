#include "bigmac/nn/log_mel.h"

#include <torch/fft.h>
#include <torch/nn/functional/padding.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "bigmac/nn/check.h"

namespace bigmac::nn {
namespace {

constexpr double linear_hz = 200.0 / 3;  // Hz a mel below the border
constexpr double border_hz = 1000, border_mel = border_hz / linear_hz;
const double log_step = std::log(6.4) / 27;  // of ln(Hz) a mel above it

double mel_of(double hz) {
  return hz < border_hz ? hz / linear_hz : border_mel + std::log(hz / border_hz) / log_step;
}

double hz_of(double mel) {
  return mel < border_mel ? mel * linear_hz : border_hz * std::exp((mel - border_mel) * log_step);
}

int64_t samples(const char* name, double seconds, int64_t sample_rate) {
  const auto count = std::llround(seconds * static_cast<double>(sample_rate));
  expect(count >= 1, "log-mel: ", name, " of ", seconds, " s at ", sample_rate,
         " Hz is shorter than one sample");
  return count;
}

}  // namespace

torch::Tensor mel_filters(int64_t mels, int64_t window, int64_t sample_rate) {
  expect_positive("log-mel", "mels", mels);
  expect_positive("log-mel", "window", window);
  expect_positive("log-mel", "sample rate", sample_rate);
  const auto bins = window / 2 + 1;
  const double width = static_cast<double>(sample_rate) / static_cast<double>(window);
  const double step = mel_of(static_cast<double>(sample_rate) / 2) / static_cast<double>(mels + 1);
  auto filters = torch::zeros({mels, bins}, torch::kDouble);
  auto* row = filters.data_ptr<double>();
  for (int64_t i = 0; i < mels; ++i, row += bins) {
    const auto place = static_cast<double>(i);
    const double lower = hz_of(place * step), centre = hz_of((place + 1) * step),
                 upper = hz_of((place + 2) * step);
    bool empty = true;
    for (int64_t k = 0; k < bins; ++k) {
      const double hz = static_cast<double>(k) * width;
      const double height = std::min((hz - lower) / (centre - lower), (upper - hz) / (upper - centre));
      row[k] = std::max(0.0, height) * 2 / (upper - lower);
      empty = empty && row[k] == 0;
    }
    expect(!empty, "log-mel: filter ", i, " of ", mels, ", from ", lower, " to ", upper,
           " Hz, holds none of the frequencies, which are ", width,
           " Hz apart; expected fewer mels or a longer window");
  }
  return filters;
}

torch::Tensor log_mel(const torch::Tensor& waveform, int64_t sample_rate, const LogMelConfig& config) {
  expect_positive("log-mel", "sample rate", sample_rate);
  const auto window = samples("window", config.window, sample_rate),
             hop = samples("hop", config.hop, sample_rate);
  expect_shape(waveform, "waveform", {any_size});
  expect(waveform.is_floating_point(), "waveform: type ", waveform.scalar_type(),
         ", expected floating point in [-1, 1]");
  const auto length = waveform.size(0), side = window / 2;
  expect(length > side && length >= hop, "waveform: ", length, " samples, expected at least ",
         std::max(side + 1, hop), " at ", sample_rate, " Hz");

  namespace F = torch::nn::functional;
  auto padded = F::pad(waveform.view({1, 1, length}), F::PadFuncOptions({side, side}).mode(torch::kReflect));
  auto hann = torch::hann_window(window, waveform.options());
  auto frames = padded.view({-1}).unfold(0, window, hop).narrow(0, 0, length / hop);
  auto power = torch::fft::rfft(frames * hann).abs().square();  // [frames, bins]
  auto filters = mel_filters(config.mels, window, sample_rate).to(waveform.options());
  auto logs = torch::matmul(filters, power.t()).clamp_min(1e-10).log10();
  return (torch::maximum(logs, logs.max() - 8) + 4) / 4;
}

}  // namespace bigmac::nn
