#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace bigmac::data {

// Sound of one channel in plain memory.
struct Waveform {
  int64_t sample_rate = 16000;  // Hz
  std::vector<float> samples;   // in [-1, 1]

  double seconds() const { return static_cast<double>(samples.size()) / static_cast<double>(sample_rate); }
};

// Writes 16-bit PCM WAV to a temporary file beside `path` and renames it. A sample x becomes x * 32768,
// rounded and clamped; multiples of 1/32768 below 1 are read back bit for bit.
// Throws Failure naming the path and the reason; InvalidInput for a sample that is not a number, a sample
// rate outside 1..2^30, or more samples than the format's 4 GiB.
void write_wave(const std::string& path, const Waveform& waveform);

// 16-bit PCM WAV with one channel; other chunks are passed over. Throws InvalidInput naming the path and what
// is there instead: another format, several channels, a file that ends early, a file above 1 GiB.
Waveform read_wave(const std::string& path);

// What the data chunk's size means: its bytes, or nothing, as in a stream written before its end was known.
enum class WaveSize { declared, streamed };

// The same from memory; `source` stands for the path in errors.
Waveform parse_wave(std::string_view bytes, const std::string& source, WaveSize size = WaveSize::declared);

}  // namespace bigmac::data
