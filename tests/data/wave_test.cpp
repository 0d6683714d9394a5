#include "bigmac/data/wave.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <random>

#include "bigmac/data/wave_resample.h"
#include "tests/data/support.h"

namespace bigmac::data {
namespace {

using namespace std::string_literals;

Waveform noise(int64_t rate, size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  Waveform waveform{rate, std::vector<float>(count)};
  for (auto& x : waveform.samples)
    x = static_cast<float>(static_cast<int>(random() % 65536) - 32768) / 32768.0f;
  return waveform;
}

std::string contents_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(Wave, SamplesOfSixteenBitsSurviveTheRoundTrip) {
  Folder folder;
  for (int64_t rate : {8000, 16000, 22050, 192000})
    for (size_t count : {0, 1, 2, 12345}) {
      auto waveform = noise(rate, count, static_cast<uint32_t>(count));
      write_wave(folder / "sound.wav", waveform);
      auto read = read_wave(folder / "sound.wav");
      EXPECT_EQ(read.sample_rate, rate);
      EXPECT_EQ(read.samples, waveform.samples);
    }
  EXPECT_EQ(folder.files(), 1u) << "a temporary file was left behind";
}

TEST(Wave, TheBytesAreThoseOfTheFormat) {
  Folder folder;
  write_wave(folder / "sound.wav", {16000, {0.0f, 0.5f, -1.0f, 1.0f, -2.0f, 0.49999f / 32768}});
  auto expected =
      "RIFF\x30\0\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0\x80\x3e\0\0\0\x7d\0\0\x02\0\x10\0data\x0c\0\0\0"s
      "\0\0\0\x40\0\x80\xff\x7f\0\x80\0\0"s;
  EXPECT_EQ(contents_of(folder / "sound.wav"), expected);
}

TEST(Wave, OtherChunksArePassedOverAndAStreamEndsWhereItEnds) {
  Folder folder;
  write_wave(folder / "sound.wav", noise(16000, 5, 1));
  auto bytes = contents_of(folder / "sound.wav");
  auto samples = read_wave(folder / "sound.wav").samples;
  auto with_list = bytes;
  with_list.insert(36, "LIST\x03\0\0\0abc\0"s);
  EXPECT_EQ(parse_wave(with_list + "LIST\x01\0\0\0a"s, "x").samples, samples);

  auto streamed = bytes;
  streamed.replace(40, 4, "\0\xf0\xff\x7f"s);
  EXPECT_EQ(parse_wave(streamed, "x", WaveSize::streamed).samples, samples);
  EXPECT_CONTAINS(message_of([&] { parse_wave(streamed, "x"); }), "ends after 10 of 2147479552 bytes");
}

TEST(Wave, AFileThatEndsEarlyIsRefusedWhereverItEnds) {
  Folder folder;
  write_wave(folder / "sound.wav", noise(16000, 20, 1));
  auto bytes = contents_of(folder / "sound.wav");
  for (size_t length = 0; length < bytes.size(); ++length) {
    auto message = message_of([&] { read_wave(folder.write("cut.wav", bytes.substr(0, length))); });
    EXPECT_CONTAINS(message, folder / "cut.wav");
    EXPECT_CONTAINS(message, "right would be a WAV file, 16-bit PCM, one channel");
  }
}

TEST(Wave, OtherFormatsAreNamed) {
  Folder folder;
  write_wave(folder / "sound.wav", noise(16000, 20, 1));
  auto bytes = contents_of(folder / "sound.wav");
  for (auto [at, with, part] : {std::tuple{size_t{20}, "\x03\0"s, "its format is 3, and 1 is PCM"},
                                {size_t{22}, "\x02\0"s, "2 channels"},
                                {size_t{24}, "\0\0\0\0"s, "its sample rate is 0 Hz"},
                                {size_t{34}, "\x18\0"s, "24 bits"},
                                {size_t{0}, "RIFX"s, "does not begin as a WAV file does"},
                                {size_t{36}, "datx"s, "ends before its data"},
                                {size_t{12}, "fmtx"s, "data comes before its format"}}) {
    auto changed = bytes;
    changed.replace(at, with.size(), with);
    EXPECT_CONTAINS(message_of([&] { parse_wave(changed, "x"); }), part);
  }
  EXPECT_CONTAINS(message_of([&] { read_wave(folder / "none.wav"); }), folder / "none.wav");
}

TEST(Wave, AnyBytesAreReadOrRefused) {
  Folder folder;
  write_wave(folder / "sound.wav", noise(16000, 8, 1));
  auto bytes = contents_of(folder / "sound.wav");
  std::mt19937 random(7);
  int refused = 0;
  for (int round = 0; round < 20000; ++round) {
    auto changed = bytes;
    for (int i = 0; i < 2; ++i) changed[random() % changed.size()] = static_cast<char>(random());
    try {
      EXPECT_LE(parse_wave(changed, "x", WaveSize::streamed).samples.size(), bytes.size() / 2);
    } catch (const InvalidInput&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 5000);
}

TEST(Wave, WhatCannotBeWrittenIsRefused) {
  Folder folder;
  float none = std::numeric_limits<float>::quiet_NaN();
  EXPECT_CONTAINS(message_of([&] { write_wave(folder / "x.wav", {16000, {0, none}}); }), "sample 1 is not");
  EXPECT_CONTAINS(message_of([&] { write_wave(folder / "x.wav", {0, {0}}); }), "sample rate is 0 Hz");
  auto message = message_of<Failure>([&] { write_wave(folder / "none/x.wav", {16000, {0}}); });
  EXPECT_CONTAINS(message, folder / "none/x.wav");
  EXPECT_EQ(folder.files(), 0u);
}

Waveform sine(int64_t rate, double frequency, double seconds, double phase = 0.3) {
  Waveform waveform{rate, std::vector<float>(static_cast<size_t>(seconds * static_cast<double>(rate)))};
  for (size_t i = 0; i < waveform.samples.size(); ++i)
    waveform.samples[i] = static_cast<float>(std::sin(
        2 * std::numbers::pi * frequency * static_cast<double>(i) / static_cast<double>(rate) + phase));
  return waveform;
}

double decibels(double ratio) {
  return 20 * std::log10(ratio);
}

// The largest difference away from the ends, where a sine is cut.
double largest_difference(const Waveform& a, const Waveform& b) {
  double largest = 0;
  for (size_t i = a.samples.size() / 4; i < a.samples.size() * 3 / 4; ++i)
    largest =
        std::max(largest, std::abs(static_cast<double>(a.samples[i]) - static_cast<double>(b.samples[i])));
  return largest;
}

// Against the sine itself at the new rate: gain, phase and images at once.
TEST(Resample, SinesInThePassbandKeepTheirGainAndTheirTime) {
  for (auto [from, to] :
       {std::pair<int64_t, int64_t>{22050, 16000}, {16000, 22050}, {48000, 16000}, {16000, 8000}}) {
    double edge = 0.875 * static_cast<double>(std::min(from, to)) / 2, worst = 0;
    for (double frequency = 20; frequency <= edge; frequency += 97)
      worst = std::max(
          worst, largest_difference(resample(sine(from, frequency, 0.2), to), sine(to, frequency, 0.2)));
    EXPECT_LT(decibels(1 + worst), 0.001) << from << " to " << to;
    EXPECT_LT(decibels(worst), -79) << from << " to " << to;
  }
}

TEST(Resample, SinesAboveTheNewNyquistFrequencyAreGone) {
  double worst = 0;
  for (double frequency = 8001; frequency < 11000; frequency += 61) {
    auto out = resample(sine(22050, frequency, 0.2), 16000);
    worst = std::max(worst, largest_difference(out, {16000, std::vector<float>(out.samples.size())}));
  }
  EXPECT_LT(decibels(worst), -85);
}

TEST(Resample, AConstantIsKeptAndTheLengthIsRoundedUp) {
  for (size_t count : {1, 2, 440, 441, 442, 5000}) {
    auto out = resample({22050, std::vector<float>(count, 0.25f)}, 16000);
    EXPECT_EQ(out.sample_rate, 16000);
    EXPECT_EQ(out.samples.size(), (count * 320 + 440) / 441);
    if (count == 5000) {
      EXPECT_NEAR(out.samples[out.samples.size() / 2], 0.25f, 1e-6);
    }
  }
  auto same = noise(16000, 100, 3);
  EXPECT_EQ(resample(same, 16000).samples, same.samples);
  EXPECT_TRUE(resample({22050, {}}, 16000).samples.empty());
}

TEST(Resample, ABandLimitedSoundComesBackFromAHigherRate) {
  auto sound = sine(16000, 300, 0.2);
  for (double frequency : {1234.5, 3333.0, 6500.0}) {
    auto other = sine(16000, frequency, 0.2, frequency);
    for (size_t i = 0; i < sound.samples.size(); ++i) sound.samples[i] += other.samples[i];
  }
  EXPECT_LT(decibels(largest_difference(resample(resample(sound, 44100), 16000), sound)), -70);
}

TEST(Resample, ImpossibleRatesAreRefused) {
  for (int64_t rate : {-1, 0, 400000})
    EXPECT_CONTAINS(message_of([&] { resample({16000, {0}}, rate); }), "must be in 1..384000");
  EXPECT_CONTAINS(message_of([&] { resample({16000, {0}}, 999); }), "differ by more than 16 times");
  EXPECT_CONTAINS(message_of([&] { resample({0, {0}}, 16000); }), "a sample rate is 0 Hz");
}

}  // namespace
}  // namespace bigmac::data
