#include "bigmac/data/speech.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <sstream>
#include <utility>

#include "bigmac/common/error.h"
#include "bigmac/common/names.h"
#include "bigmac/data/speech_program.h"
#include "bigmac/data/text.h"
#include "bigmac/data/wave_resample.h"

namespace bigmac::data {
namespace {

// A row of the program's table of voices, as in
//  2  en-us           --/M      English_(America)  gmw/en-US            (en 3)
struct Row {
  std::vector<std::pair<std::string, int>> languages;  // with priorities, the lowest is preferred
  std::string file;
};

std::vector<Row> read_rows(const std::string& table) {
  std::vector<Row> rows;
  std::istringstream lines(table);
  std::string line;
  while (std::getline(lines, line)) {
    std::istringstream words(line);
    Row row;
    std::string language, gender, name, word;
    int priority = 0;
    if (!(words >> priority >> language >> gender >> name >> row.file)) continue;
    row.languages.emplace_back(language, priority);
    while (words >> word) {
      if (word[0] == '(' && words >> priority) row.languages.emplace_back(word.substr(1), priority);
      if (word[0] != '(') row.file += " " + word;
      words.ignore();  // ')', behind which the next language follows without a space
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

void check_text(const std::string& text) {
  constexpr size_t kMostBytes = 10000;
  if (text.size() > kMostBytes)
    throw InvalidInput(
        concat("a text to speak has ", text.size(), " bytes; at most ", kMostBytes, " are spoken"));
  if (text.find_first_not_of(" \t\n\r") == text.npos) throw InvalidInput("a text to speak is empty");
  for (size_t position = 0; position < text.size();) {
    size_t start = position;
    auto codepoint = next_codepoint(text, position);
    if (!codepoint) throw InvalidInput(concat("a text to speak is not UTF-8 at byte ", start));
    bool space = *codepoint == U' ' || *codepoint == U'\t' || *codepoint == U'\n' || *codepoint == U'\r';
    if ((*codepoint < 0x20 && !space) || *codepoint == 0x7F)
      throw InvalidInput(concat("a text to speak has a control character at byte ", start));
  }
}

// "[[" would begin phonemes.
std::string as_text(std::string text) {
  for (size_t at = text.find("[["); at != text.npos; at = text.find("[[", at)) text.insert(at + 1, 1, ' ');
  return text;
}

// Where the name of the language ends and that of the variant, if any, begins.
size_t plus_of(const Voice& voice) {
  return std::min(voice.name.find('+'), voice.name.size());
}

std::string first_line(const std::string& messages) {
  return messages.substr(0, messages.find('\n'));
}

}  // namespace

Speaker::Speaker(std::string program, std::chrono::milliseconds limit)
    : program_(std::move(program)), limit_(limit) {
  auto table = run_program({program_, "--voices"}, "", limit_);
  if (table.not_started != 0)
    throw InvalidInput(concat("cannot run ", program_, ": ", std::strerror(table.not_started),
                              "; Debian's package espeak-ng installs it"));
  std::map<std::string, int> best;
  for (const auto& row : read_rows(table.output))
    for (const auto& [language, priority] : row.languages) {
      auto [known, fresh] = best.try_emplace(language, priority);
      if (!fresh && known->second <= priority) continue;
      known->second = priority;
      files_[language] = row.file;
    }
  if (files_.empty())
    throw InvalidInput(concat(program_, " has no voices (", first_line(table.messages),
                              "); Debian's package espeak-ng-data installs them"));
  for (const auto& row : read_rows(run_program({program_, "--voices=variant"}, "", limit_).output))
    if (row.file.starts_with("!v/")) variants_.push_back(row.file.substr(3));
  std::sort(variants_.begin(), variants_.end());
}

std::vector<std::string> Speaker::voices() const {
  std::vector<std::string> names;
  for (const auto& [name, file] : files_) names.push_back(name);
  return names;
}

void Speaker::check(const Voice& voice) const {
  auto plus = plus_of(voice);
  auto name = voice.name.substr(0, plus);
  if (!files_.contains(name)) throw InvalidInput(unknown_name("voice", name, voices()));
  if (plus < voice.name.size()) {
    auto variant = voice.name.substr(plus + 1);
    if (!std::binary_search(variants_.begin(), variants_.end(), variant))
      throw InvalidInput(unknown_name("variant of a voice", variant, variants_));
  }
  if (voice.words_per_minute < 80 || voice.words_per_minute > 450)
    throw InvalidInput(
        concat("a voice speaks ", voice.words_per_minute, " words a minute; it must be 80..450"));
  if (voice.pitch < 0 || voice.pitch > 99)
    throw InvalidInput(concat("a voice's pitch is ", voice.pitch, "; it must be 0..99"));
}

Waveform Speaker::speak(const std::string& text, const Voice& voice, int64_t sample_rate) const {
  check(voice);
  check_text(text);
  // Below the usual amplitude of 100, at which some words reach full scale.
  constexpr const char* kAmplitude = "70";
  // By its file: the program ignores a variant behind some languages' names ("en-gb+f3").
  auto plus = plus_of(voice);
  std::string file = files_.at(voice.name.substr(0, plus)) + voice.name.substr(plus);
  auto result =
      run_program({program_, "-v", file, "-a", kAmplitude, "-s", std::to_string(voice.words_per_minute), "-p",
                   std::to_string(voice.pitch), "-b", "1", "-z", "--stdin", "--stdout"},
                  as_text(text), limit_);
  if (result.not_started != 0 || !result.succeeded || result.output.empty())
    throw Failure(
        concat(program_, " fails to speak '", text, "' with the voice ", voice.name, ": ",
               result.not_started != 0 ? std::strerror(result.not_started) : first_line(result.messages)));
  auto waveform = resample(parse_wave(result.output, program_, WaveSize::streamed), sample_rate);
  for (auto& sample : waveform.samples)
    sample = std::clamp(std::nearbyint(sample * 32768.0f), -32768.0f, 32767.0f) / 32768.0f;
  if (std::all_of(waveform.samples.begin(), waveform.samples.end(), [](float x) { return x == 0; }))
    throw InvalidInput(concat("there is nothing to say in '", text, "'"));
  return waveform;
}

Waveform speak(const std::string& text, const Voice& voice, int64_t sample_rate) {
  return Speaker().speak(text, voice, sample_rate);
}

}  // namespace bigmac::data
