#pragma once

#include <torch/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bigmac/data/dataset.h"
#include "bigmac/data/speech.h"

namespace bigmac::data {

struct SpokenConfig {
  std::vector<std::string> voices = {"en-us", "en-us+f2", "en-us+m3", "en-gb", "en-gb+f3", "en-gb-scotland"};
  int64_t slowest = 140, fastest = 210;  // words per minute, both included
  int64_t lowest = 35, highest = 65;     // pitch, both included
  uint64_t seed = 1;
  int64_t sample_rate = 16000;
  std::string cache;  // a folder for what has been spoken; none: each time anew
  std::string program = kSpeechProgram;
};

// Names spoken by voices that the index and the seed draw: an independent voice, rate and pitch for each.
// waveform() is a pure function of names, config, index and the version of eSpeak NG, with a cache or
// without; several threads may call it, and several ranks may share a cache.
class Spoken {
 public:
  // Makes the cache's folder. Throws InvalidInput for no voices, an unknown voice, an empty or impossible
  // range, or a missing program where there is no cache; Failure where the folder cannot be made.
  Spoken(std::vector<std::string> names, SpokenConfig config = {});
  explicit Spoken(const Dataset& dataset, SpokenConfig config = {});

  int64_t size() const { return static_cast<int64_t>(names_.size()); }
  int64_t sample_rate() const { return config_.sample_rate; }

  // Throws InvalidInput for an index outside 0..size()-1, as the functions below.
  Voice voice(int64_t index) const;

  // [n] float in [-1, 1] on the CPU, from the cache or else spoken and then kept there.
  // Throws InvalidInput for a name that cannot be spoken, a cached file that is not what was written, or
  // where a name is to be spoken and the program is missing; Failure where the cache cannot be written.
  torch::Tensor waveform(int64_t index) const;

  // Of the cached file, WAV: the name's letters and a hash of all that determines the sound but the version
  // of eSpeak NG. Empty without a cache.
  std::string path(int64_t index) const;

  // Speaks what the cache lacks, with that many threads (0: one a core); how many were spoken. Throws as
  // waveform(), and InvalidInput without a cache or for a negative number of threads.
  int64_t fill_cache(int64_t threads = 0) const;

 private:
  const std::string& name(int64_t index) const;
  Waveform speak(int64_t index) const;

  std::vector<std::string> names_;
  SpokenConfig config_;
  std::optional<Speaker> speaker_;  // none where a cache has to serve
};

}  // namespace bigmac::data
