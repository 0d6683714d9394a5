#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "bigmac/data/wave.h"

namespace bigmac::data {

inline constexpr const char* kSpeechProgram = "espeak-ng";

struct Voice {
  std::string name = "en";         // a language, or with a variant, a speaker: "en-us+f3"
  int64_t words_per_minute = 175;  // 80..450
  int64_t pitch = 50;              // 0..99
};

// eSpeak NG, a formant synthesizer: the program, not its library, whose sound depends on what was spoken
// before and which one thread at a time may use. So text, voice and version determine each sample, and
// several threads may speak at once.
class Speaker {
 public:
  // Asks the program for its voices. Throws InvalidInput naming Debian's package where the program or its
  // data is missing; Failure where it does not answer within `limit`.
  explicit Speaker(std::string program = kSpeechProgram,
                   std::chrono::milliseconds limit = std::chrono::seconds(60));

  std::vector<std::string> voices() const;  // without variants, sorted
  const std::vector<std::string>& variants() const { return variants_; }

  // Throws InvalidInput for an unknown name (and names the nearest), a rate or a pitch outside its range.
  void check(const Voice& voice) const;

  // The text spoken, resampled from the program's 22050 Hz. Samples are multiples of 1/32768 in [-1, 1], so
  // that write_wave keeps them bit for bit. Not kept anywhere; takes about 15 ms for a few words.
  // Throws InvalidInput as check(), and for a text with nothing to say, above 10,000 bytes, not UTF-8, or
  // with control characters; Failure where the program fails or takes longer than the limit.
  Waveform speak(const std::string& text, const Voice& voice = {}, int64_t sample_rate = 16000) const;

 private:
  std::string program_;
  std::chrono::milliseconds limit_;
  std::map<std::string, std::string> files_;  // of each voice, as the program names it
  std::vector<std::string> variants_;
};

// Speaker().speak(...): asks for the voices each time.
Waveform speak(const std::string& text, const Voice& voice = {}, int64_t sample_rate = 16000);

}  // namespace bigmac::data
