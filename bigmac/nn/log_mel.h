#pragma once

#include <torch/types.h>

#include <cstdint>

namespace bigmac::nn {

struct LogMelConfig {
  int64_t mels = 80;
  double window = 0.025;  // seconds; the window and the Fourier transform have this length in whole samples
  double hop = 0.010;     // seconds from frame to frame
};

// Triangular filters whose mels + 2 edges lie evenly between 0 and sample_rate / 2 on Slaney's mel scale:
// f / (200/3) below 1000 Hz, 15 + 27 ln(f / 1000) / ln 6.4 above (Slaney, Auditory Toolbox, 1998). Each has
// the height 2 / (upper - lower edge in Hz), hence the area 1 over the frequency.
// [mels, window / 2 + 1] float64 on the CPU, where column k is the frequency k * sample_rate / window.
// InvalidInput where a filter is so narrow that no frequency falls into it.
torch::Tensor mel_filters(int64_t mels, int64_t window, int64_t sample_rate);

// Whisper's input features (Radford et al. 2022, section 2.2): power spectra |X|^2 under a periodic Hann
// window around each multiple of the hop, the waveform mirrored at both ends, the filters above,
// log10(max(., 1e-10)), then max(., largest - 8) and (. + 4) / 4.
// waveform [n] floating point in [-1, 1], more than half a window long -> [mels, floor(n / hop)], the same
// data type and device.
torch::Tensor log_mel(const torch::Tensor& waveform, int64_t sample_rate, const LogMelConfig& config = {});

}  // namespace bigmac::nn
