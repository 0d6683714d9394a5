#include "bigmac/data/speech.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <numeric>
#include <set>
#include <thread>

#include "bigmac/data/spoken.h"
#include "tests/data/support.h"

namespace bigmac::data {
namespace {

#define SKIP_WITHOUT_SPEECH() SKIP_WITHOUT("/usr/bin/espeak-ng", "espeak-ng")

double rms(const std::vector<float>& samples) {
  double sum = std::inner_product(samples.begin(), samples.end(), samples.begin(), 0.0);
  return std::sqrt(sum / static_cast<double>(samples.size()));
}

float peak(const std::vector<float>& samples) {
  float largest = 0;
  for (float x : samples) largest = std::max(largest, std::abs(x));
  return largest;
}

// Of a steady vowel, in Hz: the lag between 60 and 400 Hz at which the middle of the sound is most like
// itself.
double pitch_of(const Waveform& waveform) {
  const auto& x = waveform.samples;
  size_t start = x.size() / 2, best = 0;
  double most = 0;
  for (size_t lag = static_cast<size_t>(waveform.sample_rate) / 400;
       lag < static_cast<size_t>(waveform.sample_rate) / 60; ++lag) {
    double sum = 0;
    for (size_t i = start; i < start + 800; ++i)
      sum += static_cast<double>(x[i]) * static_cast<double>(x[i - lag]);
    if (sum > most) most = sum, best = lag;
  }
  return static_cast<double>(waveform.sample_rate) / static_cast<double>(best);
}

std::string script(const Folder& folder, const std::string& body) {
  auto path = folder.write("speaker", "#!/bin/sh\n" + body + "\n");
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  return path;
}

constexpr const char* kTable = "echo ' 2  en-gb --/M English gmw/en (en 2)'";

TEST(Speech, ANameIsAudibleAndNotClipped) {
  SKIP_WITHOUT_SPEECH();
  Speaker speaker;
  for (const char* text :
       {"grinning face", "keycap: #", "flag: Côte d’Ivoire", "Japanese “acceptable” button"}) {
    auto sound = speaker.speak(text);
    EXPECT_EQ(sound.sample_rate, 16000);
    EXPECT_GT(sound.seconds(), 0.3) << text;
    EXPECT_LT(sound.seconds(), 4) << text;
    EXPECT_GT(rms(sound.samples), 0.02) << text;
    EXPECT_LT(peak(sound.samples), 1) << text;
    for (float x : sound.samples) ASSERT_EQ(x * 32768.0f, std::nearbyint(x * 32768.0f));
  }
}

// The loudest of the emoji names; at the program's usual amplitude they would be clipped.
TEST(Speech, TheLoudestNamesKeepAwayFromFullScale) {
  SKIP_WITHOUT_SPEECH();
  Speaker speaker;
  EXPECT_LT(peak(speaker.speak("woman: curly hair", {"en-gb-scotland", 208, 50}).samples), 0.9);
  EXPECT_LT(
      peak(speaker.speak("person: medium-light skin tone, curly hair", {"en-gb-scotland", 178, 36}).samples),
      0.9);
}

TEST(Speech, MoreWordsTakeLongerAndAFasterVoiceLess) {
  SKIP_WITHOUT_SPEECH();
  Speaker speaker;
  std::string text;
  double before = 0;
  for (const char* word : {"fish", " cake", " with", " swirl", " and", " crescent", " moon"}) {
    text += word;
    double seconds = speaker.speak(text).seconds();
    EXPECT_GT(seconds, before) << text;
    before = seconds;
  }
  for (int64_t rate : {120, 175, 250, 350}) {
    double seconds = speaker.speak(text, {"en", rate, 50}).seconds();
    if (rate > 120) {
      EXPECT_LT(seconds, before) << rate;
    }
    before = seconds;
  }
}

TEST(Speech, TheSampleRateChangesTheSamplesAndNotTheDuration) {
  SKIP_WITHOUT_SPEECH();
  Speaker speaker;
  double seconds = speaker.speak("red heart", {}, 22050).seconds();
  for (int64_t rate : {8000, 16000, 48000}) {
    auto sound = speaker.speak("red heart", {}, rate);
    EXPECT_EQ(sound.sample_rate, rate);
    EXPECT_NEAR(sound.seconds(), seconds, 1.0 / static_cast<double>(rate));
  }
}

TEST(Speech, AHigherPitchIsHigher) {
  SKIP_WITHOUT_SPEECH();
  Speaker speaker;
  double before = 0;
  for (int64_t pitch : {10, 50, 90}) {
    double frequency = pitch_of(speaker.speak("ahhh", {"en", 80, pitch}));
    EXPECT_GT(frequency, before + 10) << pitch;
    before = frequency;
  }
}

TEST(Speech, TheSameTextIsTheSameSoundWhateverWasSpokenBeforeAndBeside) {
  SKIP_WITHOUT_SPEECH();
  Speaker speaker;
  Voice whisper{"en+whisper", 160, 40};  // with noise in it
  auto first = speaker.speak("grinning face"), breathed = speaker.speak("grinning face", whisper);
  speaker.speak("fish cake with swirl", {"en+f3"});
  EXPECT_EQ(speaker.speak("grinning face").samples, first.samples);
  EXPECT_EQ(speak("grinning face").samples, first.samples);

  std::atomic<int> equal{0};
  {
    std::vector<std::jthread> threads;
    for (int thread = 0; thread < 4; ++thread)
      threads.emplace_back([&] {
        for (int round = 0; round < 5; ++round) {
          equal += speaker.speak("grinning face").samples == first.samples;
          equal += speaker.speak("grinning face", whisper).samples == breathed.samples;
        }
      });
  }
  EXPECT_EQ(equal, 40);
}

TEST(Speech, VoicesAndVariantsDiffer) {
  SKIP_WITHOUT_SPEECH();
  Speaker speaker;
  std::set<std::vector<float>> sounds;
  std::vector<std::string> voices = SpokenConfig().voices;
  voices.insert(voices.end(), {"en+klatt", "de", "fr-fr"});
  for (const auto& voice : voices) sounds.insert(speaker.speak("grinning face", {voice}).samples);
  EXPECT_EQ(sounds.size(), voices.size());
  EXPECT_EQ(speaker.speak("red heart", {"en"}).samples, speaker.speak("red heart", {"en-gb"}).samples)
      << "en is en-gb to eSpeak NG";
}

TEST(Speech, AnUnknownVoiceNamesTheNearest) {
  SKIP_WITHOUT_SPEECH();
  Speaker speaker;
  EXPECT_CONTAINS(message_of([&] { speaker.check({"en-uss"}); }),
                  "unknown voice 'en-uss' (did you mean 'en-us'?)");
  EXPECT_CONTAINS(message_of([&] { speaker.check({"en+Andrew"}); }),
                  "unknown variant of a voice 'Andrew' (did you mean 'Andrea'?)");
  EXPECT_CONTAINS(message_of([&] { speaker.check({""}); }), "unknown voice ''");
  EXPECT_CONTAINS(message_of([&] { speaker.check({"en+"}); }), "unknown variant of a voice ''");
  EXPECT_CONTAINS(message_of([&] { speaker.check({"en", 79}); }), "79 words a minute; it must be 80..450");
  EXPECT_CONTAINS(message_of([&] { speaker.check({"en", 175, 100}); }), "pitch is 100; it must be 0..99");
}

TEST(Speech, ATextWithNothingToSayIsRefused) {
  SKIP_WITHOUT_SPEECH();
  Speaker speaker;
  for (const auto& sample : {std::pair<std::string, std::string>{"", "is empty"},
                             {" \n\t", "is empty"},
                             {"...", "nothing to say in '...'"},
                             {"a\x01z", "control character at byte 1"},
                             {std::string("a\0z", 3), "control character at byte 1"},
                             {"caf\xE9", "not UTF-8 at byte 3"},
                             {std::string(10001, 'a'), "10001 bytes"}})
    EXPECT_CONTAINS(message_of([&] { speaker.speak(sample.first); }), sample.second);
}

TEST(Speech, MarkupAndOptionsAreRead) {
  SKIP_WITHOUT_SPEECH();
  Speaker speaker;
  EXPECT_GT(speaker.speak("<b>hi</b>").seconds(), 2 * speaker.speak("hi").seconds());
  EXPECT_EQ(speaker.speak("[[f'eIs]]").samples, speaker.speak("[ [f'eIs]]").samples) << "read as phonemes";
  EXPECT_NE(speaker.speak("--help").samples, speaker.speak("hi").samples);
}

TEST(Speech, AMissingProgramOrItsDataNamesThePackage) {
  Folder folder;
  auto message = message_of([&] { Speaker(folder / "none"); });
  EXPECT_CONTAINS(message, "cannot run " + folder / "none" + ": No such file or directory");
  EXPECT_CONTAINS(message, "package espeak-ng installs it");
  message = message_of([&] { Speaker(script(folder, "echo 'no phontab' >&2; exit 1")); });
  EXPECT_CONTAINS(message, "has no voices (no phontab); Debian's package espeak-ng-data");
}

TEST(Speech, AProgramThatFailsOrHangsIsAFailure) {
  Folder folder;
  auto broken = script(folder, concat("[ \"$1\" = -v ] && { echo 'out of breath' >&2; exit 3; }\n", kTable));
  EXPECT_CONTAINS(message_of<Failure>([&] { Speaker(broken).speak("hello"); }),
                  "fails to speak 'hello' with the voice en: out of breath");
  auto killed = script(folder, concat("[ \"$1\" = -v ] && kill -9 $$\n", kTable));
  EXPECT_CONTAINS(message_of<Failure>([&] { Speaker(killed).speak("hello"); }), "fails to speak 'hello'");
  auto silent = script(folder, concat("[ \"$1\" = -v ] && exit 0\n", kTable));
  EXPECT_CONTAINS(message_of<Failure>([&] { Speaker(silent).speak("hello"); }), "fails to speak 'hello'");
  auto hanging = script(folder, "exec sleep 60");
  auto start = std::chrono::steady_clock::now();
  EXPECT_CONTAINS(message_of<Failure>([&] { Speaker(hanging, std::chrono::milliseconds(300)); }),
                  "has not ended after 300 ms");
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
}

}  // namespace
}  // namespace bigmac::data
