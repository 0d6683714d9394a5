#include "bigmac/data/wave.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "bigmac/common/atomic_file.h"
#include "bigmac/common/error.h"
#include "bigmac/common/read_file.h"

namespace bigmac::data {
namespace {

constexpr std::string_view kRight = "a WAV file, 16-bit PCM, one channel";
constexpr size_t kHeader = 44, kMostBytes = size_t{1} << 30;
constexpr int64_t kMostRate = int64_t{1} << 30;

void append(std::string& bytes, uint32_t value, int count) {
  for (int shift = 0; shift < 8 * count; shift += 8) bytes += static_cast<char>((value >> shift) & 0xFFu);
}

uint32_t number_at(std::string_view bytes, size_t position, int count) {
  uint32_t value = 0;
  for (int i = count - 1; i >= 0; --i)
    value = (value << 8) | static_cast<unsigned char>(bytes[position + static_cast<size_t>(i)]);
  return value;
}

struct Chunk {
  std::string_view name, contents;
  size_t declared = 0;  // bytes
};

// Cuts a chunk off `rest`, and what is there of it where the file ends early.
Chunk take_chunk(std::string_view& rest) {
  Chunk chunk{rest.substr(0, 4), {}, number_at(rest, 4, 4)};
  chunk.contents = rest.substr(8, chunk.declared);
  rest.remove_prefix(std::min(rest.size(), 8 + chunk.declared + chunk.declared % 2));
  return chunk;
}

}  // namespace

void write_wave(const std::string& path, const Waveform& waveform) {
  auto refuse = [&](const auto&... what) {
    return InvalidInput(concat("cannot write ", path, ": ", what...));
  };
  if (waveform.sample_rate < 1 || waveform.sample_rate > kMostRate)
    throw refuse("the sample rate is ", waveform.sample_rate, " Hz; it must be in 1..", kMostRate);
  constexpr size_t kMostSamples = (std::numeric_limits<uint32_t>::max() - kHeader) / 2;
  if (waveform.samples.size() > kMostSamples)
    throw refuse(waveform.samples.size(), " samples; a WAV file holds at most ", kMostSamples);
  auto rate = static_cast<uint32_t>(waveform.sample_rate);
  auto size = static_cast<uint32_t>(2 * waveform.samples.size());

  std::string bytes = "RIFF";
  bytes.reserve(kHeader + size);
  append(bytes, static_cast<uint32_t>(kHeader - 8) + size, 4);
  bytes += "WAVEfmt ";
  append(bytes, 16, 4);
  append(bytes, 1, 2);         // PCM
  append(bytes, 1, 2);         // channels
  append(bytes, rate, 4);      // samples a second
  append(bytes, 2 * rate, 4);  // bytes a second
  append(bytes, 2, 2);         // bytes of all channels' samples at one time
  append(bytes, 16, 2);        // bits of a sample
  bytes += "data";
  append(bytes, size, 4);
  for (size_t i = 0; i < waveform.samples.size(); ++i) {
    float sample = waveform.samples[i];
    if (std::isnan(sample)) throw refuse("sample ", i, " is not a number");
    auto value = std::lrint(std::clamp(sample * 32768.0f, -32768.0f, 32767.0f));
    append(bytes, static_cast<uint32_t>(value), 2);
  }
  AtomicFile file(path);
  file.write(bytes.data(), bytes.size());
  file.publish();
}

Waveform read_wave(const std::string& path) {
  return parse_wave(read_file(path, kMostBytes, kRight), path);
}

Waveform parse_wave(std::string_view bytes, const std::string& source, WaveSize size) {
  auto refuse = [&](const auto&... what) {
    return InvalidInput(concat("cannot read '", source, "': ", what..., "; right would be ", kRight));
  };
  if (bytes.size() < 12 || bytes.substr(0, 4) != "RIFF" || bytes.substr(8, 4) != "WAVE")
    throw refuse("it does not begin as a WAV file does");
  std::string_view rest = bytes.substr(12);
  Waveform waveform{0, {}};
  while (rest.size() >= 8) {
    Chunk chunk = take_chunk(rest);
    bool whole = chunk.contents.size() == chunk.declared;
    if (chunk.name == "fmt ") {
      if (!whole || chunk.declared < 16) throw refuse("its format takes ", chunk.contents.size(), " bytes");
      auto format = number_at(chunk.contents, 0, 2), channels = number_at(chunk.contents, 2, 2),
           rate = number_at(chunk.contents, 4, 4), bits = number_at(chunk.contents, 14, 2);
      if (format != 1) throw refuse("its format is ", format, ", and 1 is PCM");
      if (channels != 1) throw refuse("it has ", channels, " channels");
      if (bits != 16) throw refuse("its samples have ", bits, " bits");
      if (rate < 1 || rate > kMostRate) throw refuse("its sample rate is ", rate, " Hz");
      waveform.sample_rate = rate;
    } else if (chunk.name == "data") {
      if (waveform.sample_rate == 0) throw refuse("its data comes before its format");
      if (!whole && size == WaveSize::declared)
        throw refuse("it ends after ", chunk.contents.size(), " of ", chunk.declared, " bytes of data");
      waveform.samples.reserve(chunk.contents.size() / 2);
      for (size_t i = 0; i + 2 <= chunk.contents.size(); i += 2)
        waveform.samples.push_back(static_cast<float>(static_cast<int16_t>(number_at(chunk.contents, i, 2))) /
                                   32768.0f);
      return waveform;
    }
  }
  throw refuse("it ends before its data");
}

}  // namespace bigmac::data
