#include "bigmac/nn/log_mel.h"

#include <algorithm>
#include <complex>
#include <numbers>
#include <vector>

#include "support.h"

namespace bigmac::nn {
namespace {

using namespace test;

constexpr double pi = std::numbers::pi;

double slaney_hz(double mel) {
  return mel <= 15 ? mel * 200 / 3 : 1000 * std::pow(6.4, (mel - 15) / 27);
}

// The mel + 2 edges in Hz.
std::vector<double> edges(int64_t mels, int64_t rate) {
  const double top = 15 + 27 * std::log(static_cast<double>(rate) / 2000) / std::log(6.4);
  std::vector<double> result;
  for (int64_t i = 0; i < mels + 2; ++i)
    result.push_back(slaney_hz(top * static_cast<double>(i) / static_cast<double>(mels + 1)));
  return result;
}

// The whole definition, sample by sample, with a plain Fourier sum.
std::vector<std::vector<double>> plain_log_mel(const std::vector<double>& wave, int64_t rate, int64_t mels) {
  const int64_t window = rate / 40, hop = rate / 100, n = static_cast<int64_t>(wave.size());
  const auto edge = edges(mels, rate);
  std::vector<std::vector<double>> result(mels);
  double largest = -1e9;
  for (int64_t frame = 0; frame < n / hop; ++frame) {
    std::vector<double> power;
    for (int64_t k = 0; k <= window / 2; ++k) {
      std::complex<double> sum = 0;
      for (int64_t i = 0; i < window; ++i) {
        auto at = frame * hop + i - window / 2;
        if (at < 0) at = -at;
        if (at >= n) at = 2 * (n - 1) - at;
        const double hann =
            0.5 - 0.5 * std::cos(2 * pi * static_cast<double>(i) / static_cast<double>(window));
        const double angle = -2 * pi * static_cast<double>(k * i % window) / static_cast<double>(window);
        sum += wave[at] * hann * std::polar(1.0, angle);
      }
      power.push_back(std::norm(sum));
    }
    for (int64_t m = 0; m < mels; ++m) {
      double energy = 0;
      for (int64_t k = 0; k <= window / 2; ++k) {
        const double hz = static_cast<double>(k * rate) / static_cast<double>(window);
        double height = 0;
        if (hz > edge[m] && hz <= edge[m + 1]) height = (hz - edge[m]) / (edge[m + 1] - edge[m]);
        if (hz > edge[m + 1] && hz < edge[m + 2]) height = (edge[m + 2] - hz) / (edge[m + 2] - edge[m + 1]);
        energy += power[k] * height * 2 / (edge[m + 2] - edge[m]);
      }
      result[m].push_back(std::log10(std::max(energy, 1e-10)));
      largest = std::max(largest, result[m].back());
    }
  }
  for (auto& row : result)
    for (auto& value : row) value = (std::max(value, largest - 8) + 4) / 4;
  return result;
}

torch::Tensor tone(double hz, int64_t rate, int64_t length) {
  auto time = torch::arange(length, f64()) / static_cast<double>(rate);
  return 0.5 * torch::sin(2 * pi * hz * time);
}

TEST(LogMel, EqualsThePlainFourierSum) {
  torch::manual_seed(1);
  struct Case {
    int64_t rate, mels, length;
  };
  for (auto c : {Case{16000, 80, 201}, Case{16000, 80, 1000}, Case{8000, 40, 777}, Case{16000, 128, 480}}) {
    auto wave = torch::rand({c.length}, f64()) * 2 - 1 + tone(440, c.rate, c.length);
    const auto* data = wave.data_ptr<double>();
    auto expected = plain_log_mel({data, data + c.length}, c.rate, c.mels);
    LogMelConfig config;
    config.mels = c.mels;
    auto found = log_mel(wave, c.rate, config);
    ASSERT_EQ(found.sizes(), (std::vector<int64_t>{c.mels, c.length / (c.rate / 100)}));
    for (int64_t m = 0; m < c.mels; ++m)
      for (int64_t t = 0; t < found.size(1); ++t)
        ASSERT_NEAR(found[m][t].item<double>(), expected[m][t], 1e-10) << m << ' ' << t;
  }
}

TEST(LogMel, PeaksWhereATonesFrequencyLies) {
  for (double hz : {110.0, 440.0, 1000.0, 2500.0, 6000.0}) {
    const auto edge = edges(80, 16000);
    auto peak = log_mel(tone(hz, 16000, 4000), 16000).slice(1, 3, 20).argmax(0);
    for (int64_t t = 0; t < peak.size(0); ++t) {
      const auto m = peak[t].item<int64_t>();
      EXPECT_LT(edge[m], hz);
      EXPECT_GT(edge[m + 2], hz);
    }
  }
}

TEST(LogMel, SpansAtMostEightDecadesAndIgnoresNoScaleButAShift) {
  auto wave = tone(700, 16000, 3200);
  auto features = log_mel(wave, 16000);
  EXPECT_NEAR((features.max() - features.min()).item<double>(), 2, 1e-12);
  // A tenth of the amplitude is a hundredth of the power: two decades, over four.
  EXPECT_LT(largest_difference(log_mel(wave / 10, 16000), features - 0.5), 1e-9);
  auto silence = log_mel(torch::zeros({3200}, f64()), 16000);
  EXPECT_LT(largest_difference(silence, torch::full_like(silence, (-10.0 + 4) / 4)), 1e-12);
}

TEST(LogMel, KeepsFloat32) {
  auto wave = tone(700, 16000, 3200);
  auto features = log_mel(wave.to(torch::kFloat), 16000);
  EXPECT_EQ(features.scalar_type(), torch::kFloat);
  EXPECT_LT(largest_difference(log_mel(wave, 16000), features.to(torch::kDouble)), 0.05);
}

TEST(LogMel, TellsWhatIsWrongWithTheWaveform) {
  EXPECT_EQ(error_of([] { log_mel(torch::zeros({200}), 16000); }),
            "waveform: 200 samples, expected at least 201 at 16000 Hz");
  EXPECT_EQ(error_of([] {
              log_mel(torch::zeros({2, 400}), 16000);
            }),
            "waveform: shape [2, 400], expected [any]");
  EXPECT_EQ(error_of([] { log_mel(torch::zeros({400}, torch::kShort), 16000); }),
            "waveform: type Short, expected floating point in [-1, 1]");
  EXPECT_EQ(error_of([] { log_mel(torch::zeros({400}), 0); }),
            "log-mel: sample rate is 0, expected at least 1");
  LogMelConfig config;
  config.hop = 1e-6;
  EXPECT_EQ(error_of([&] { log_mel(torch::zeros({400}), 16000, config); }),
            "log-mel: hop of 1e-06 s at 16000 Hz is shorter than one sample");
}

TEST(MelFilters, AreTrianglesBetweenTheEdges) {
  for (auto [mels, window, rate] : {std::tuple<int64_t, int64_t, int64_t>{80, 400, 16000},
                                    {128, 400, 16000},
                                    {40, 551, 22050},
                                    {64, 16000, 16000}}) {
    auto filters = mel_filters(mels, window, rate);
    ASSERT_EQ(filters.sizes(), (std::vector<int64_t>{mels, window / 2 + 1}));
    const auto edge = edges(mels, rate);
    const auto values = filters.accessor<double, 2>();
    for (int64_t m = 0; m < mels; ++m)
      for (int64_t k = 0; k <= window / 2; ++k) {
        const double hz = static_cast<double>(k * rate) / static_cast<double>(window);
        const double value = values[m][k];
        if (hz <= edge[m] - 1e-6 || hz >= edge[m + 2] + 1e-6) {
          EXPECT_EQ(value, 0) << m << ' ' << hz;
        } else {
          const double height = hz < edge[m + 1] ? (hz - edge[m]) / (edge[m + 1] - edge[m])
                                                 : (edge[m + 2] - hz) / (edge[m + 2] - edge[m + 1]);
          EXPECT_NEAR(value, std::max(0.0, height) * 2 / (edge[m + 2] - edge[m]), 1e-12) << m << ' ' << hz;
        }
      }
  }
}

TEST(MelFilters, HaveTheAreaOneOverTheFrequency) {
  const int64_t rate = 16000, window = 160000;  // 0.1 Hz apart
  auto sums = mel_filters(80, window, rate).sum(1) * 0.1;
  EXPECT_LT((sums - 1).abs().max().item<double>(), 1e-5);
}

TEST(MelFilters, HaveTheKnownEdges) {
  // 1000 Hz is mel 15; 6400 Hz is mel 42, so for a top of 6400 Hz and 13 filters the edges are 3 mels apart:
  // 0, 200, 400, 600, 800, 1000, then factors of 6.4^(3/27).
  auto filters = mel_filters(13, 12800, 12800);  // 1 Hz apart
  const double factor = std::pow(6.4, 3.0 / 27);
  for (int64_t m = 0; m < 4; ++m) {
    EXPECT_EQ(filters[m].argmax().item<int64_t>(), 200 * (m + 1));
    EXPECT_EQ(filters[m][200 * m].item<double>(), 0);
    EXPECT_NEAR(filters[m].max().item<double>(), 2.0 / 400, 1e-12);
  }
  EXPECT_EQ(filters[4].argmax().item<int64_t>(), 1000);
  EXPECT_EQ(filters[5].argmax().item<int64_t>(), std::llround(1000 * factor));
  // Whisper's first filter at 40 Hz: edges 0, 37.239 and 74.477 Hz, (74.477 - 40) / 37.239 * 2 / 74.477.
  EXPECT_NEAR(mel_filters(80, 400, 16000)[0][1].item<double>(), 0.0248626, 1e-7);
}

TEST(MelFilters, RefuseAFilterWithoutAFrequency) {
  EXPECT_NE(
      error_of([] { mel_filters(80, 100, 16000); }).find("holds none of the frequencies, which are 160 Hz"),
      std::string::npos);
  EXPECT_EQ(error_of([] { mel_filters(0, 400, 16000); }), "log-mel: mels is 0, expected at least 1");
}

}  // namespace
}  // namespace bigmac::nn
