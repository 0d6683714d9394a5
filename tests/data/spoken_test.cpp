#include "bigmac/data/spoken.h"

#include <cmath>
#include <map>
#include <set>

#include "tests/data/support.h"

namespace bigmac::data {
namespace {

#define SKIP_WITHOUT_SPEECH() SKIP_WITHOUT("/usr/bin/espeak-ng", "espeak-ng")

const std::vector<std::string> kNames = {"grinning face", "red heart", "flag: France", "man cook",
                                         "keycap: *"};

std::vector<float> samples_of(const torch::Tensor& tensor) {
  const float* data = tensor.data_ptr<float>();
  return {data, data + tensor.numel()};
}

TEST(Spoken, TheCacheGivesWhatWouldBeSpokenAndSpeaksNothingAgain) {
  SKIP_WITHOUT_SPEECH();
  Folder folder;
  Spoken fresh(kNames);
  SpokenConfig config;
  config.cache = folder / "deep/cache";
  Spoken cached(kNames, config);
  EXPECT_EQ(fresh.path(0), "");
  samples_of(cached.waveform(1));
  EXPECT_EQ(cached.fill_cache(3), 4);
  EXPECT_EQ(cached.fill_cache(), 0);

  config.program = folder / "none";  // a full cache needs no program
  Spoken without(kNames, config);
  for (int64_t i = 0; i < fresh.size(); ++i) {
    auto expected = samples_of(fresh.waveform(i));
    EXPECT_EQ(samples_of(cached.waveform(i)), expected);
    EXPECT_EQ(samples_of(without.waveform(i)), expected);
    EXPECT_EQ(samples_of(fresh.waveform(i)),
              Speaker().speak(kNames[static_cast<size_t>(i)], fresh.voice(i)).samples);
  }
  std::filesystem::remove(cached.path(2));
  EXPECT_CONTAINS(message_of([&] { without.waveform(2); }), "package espeak-ng installs it");
}

TEST(Spoken, TheSeedDrawsVoicesRatesAndPitches) {
  SKIP_WITHOUT_SPEECH();
  std::vector<std::string> names(3000, "x");
  SpokenConfig config;
  Spoken spoken(names, config);
  config.seed = 2;
  Spoken other(names, config);
  std::map<std::string, int> voices;
  std::map<int64_t, int> rates, pitches;
  int equal = 0;
  for (int64_t i = 0; i < spoken.size(); ++i) {
    auto voice = spoken.voice(i);
    ++voices[voice.name], ++rates[voice.words_per_minute], ++pitches[voice.pitch];
    equal += voice.name == other.voice(i).name && voice.pitch == other.voice(i).pitch;
  }
  EXPECT_EQ(voices.size(), config.voices.size());
  for (const auto& [name, count] : voices) EXPECT_NEAR(count, 500, 5 * std::sqrt(500.0)) << name;
  EXPECT_EQ(rates.begin()->first, config.slowest);
  EXPECT_EQ(rates.rbegin()->first, config.fastest);
  EXPECT_EQ(rates.size(), 71u);
  EXPECT_EQ(pitches.size(), 31u);
  EXPECT_NEAR(equal, 3000 / (6.0 * 31.0), 25);
}

TEST(Spoken, EachSettingHasItsOwnFile) {
  SKIP_WITHOUT_SPEECH();
  Folder folder;
  std::set<std::string> paths;
  for (uint64_t seed : {1, 2})
    for (int64_t rate : {8000, 16000}) {
      SpokenConfig config;
      config.seed = seed, config.sample_rate = rate, config.cache = folder / "cache";
      Spoken spoken({"Man Cook", "man-cook", "\xE2\x80\x9C!\xE2\x80\x9D"}, config);
      for (int64_t i = 0; i < spoken.size(); ++i) paths.insert(spoken.path(i));
      EXPECT_CONTAINS(spoken.path(0), folder / "cache/man-cook-");
    }
  EXPECT_EQ(paths.size(), 12u);
}

TEST(Spoken, BadInputIsNamed) {
  SKIP_WITHOUT_SPEECH();
  Folder folder;
  auto with = [&](auto change) {
    SpokenConfig config;
    change(config);
    return message_of([&] { Spoken(kNames, config); });
  };
  EXPECT_CONTAINS(with([](auto& c) { c.voices = {"en-us", "en-us+f33"}; }), "did you mean 'f3'?");
  EXPECT_CONTAINS(with([](auto& c) { c.voices.clear(); }), "at least one voice");
  EXPECT_CONTAINS(with([](auto& c) { c.slowest = 300; }), "words per minute 300..210 is an empty range");
  EXPECT_CONTAINS(with([](auto& c) { c.highest = 100; }), "pitch is 100");
  EXPECT_CONTAINS(with([&](auto& c) { c.program = folder / "none"; }), "package espeak-ng installs it");
  EXPECT_CONTAINS(message_of([&] { Spoken(kNames).waveform(5); }), "spoken name 5 is outside 0..4");
  EXPECT_CONTAINS(message_of([&] { Spoken(kNames).voice(-1); }), "spoken name -1 is outside 0..4");
  EXPECT_CONTAINS(message_of([&] { Spoken(kNames).fill_cache(); }), "no cache to fill");

  SpokenConfig config;
  config.cache = folder.write("file", "") + "/cache";
  EXPECT_CONTAINS(message_of<Failure>([&] { Spoken(kNames, config); }),
                  "cannot make the folder " + config.cache);
  config.cache = folder / "cache";
  Spoken spoken({"red heart", "..."}, config);
  EXPECT_CONTAINS(message_of([&] { spoken.fill_cache(2); }), "nothing to say in '...'");
  spoken.waveform(0);
  std::filesystem::resize_file(spoken.path(0), 1000);
  EXPECT_CONTAINS(message_of([&] { spoken.waveform(0); }), spoken.path(0));
}

}  // namespace
}  // namespace bigmac::data
