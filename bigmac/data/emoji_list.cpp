#include "bigmac/data/emoji_list.h"

#include <cctype>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <string_view>

#include "bigmac/common/error.h"

namespace bigmac::data {
namespace {

constexpr std::string_view kSpaces = " \t\r";

std::string_view trim(std::string_view text) {
  size_t first = text.find_first_not_of(kSpaces);
  if (first == text.npos) return {};
  return text.substr(first, text.find_last_not_of(kSpaces) - first + 1);
}

// Cuts the first word off `text`.
std::string_view take_word(std::string_view& text) {
  text = trim(text);
  std::string_view word = text.substr(0, text.find_first_of(kSpaces));
  text = trim(text.substr(word.size()));
  return word;
}

bool is_status(std::string_view word) {
  return word == "fully-qualified" || word == "minimally-qualified" || word == "unqualified" ||
         word == "component";
}

// E0.6, E13.1
bool is_version(std::string_view word) {
  return word.size() >= 4 && word[0] == 'E' && std::isdigit(static_cast<unsigned char>(word[1])) &&
         word.find_first_not_of("0123456789.", 1) == word.npos && word.find('.') != word.npos;
}

// 0 where the word is no code point.
char32_t parse_codepoint(std::string_view word) {
  if (word.size() < 4 || word.size() > 6) return 0;
  char32_t value = 0;
  for (unsigned char letter : word) {
    if (!std::isxdigit(letter)) return 0;
    value = value * 16 + (std::isdigit(letter) ? letter - '0' : std::toupper(letter) - 'A' + 10);
  }
  bool surrogate = value >= 0xD800 && value <= 0xDFFF;
  return surrogate || value > 0x10FFFF ? 0 : value;
}

std::string stem_of(const std::u32string& codepoints) {
  std::string stem;
  for (char32_t codepoint : codepoints) {
    char digits[16];
    std::snprintf(digits, sizeof digits, "%04x", static_cast<unsigned>(codepoint));
    if (!stem.empty()) stem += '-';
    stem += digits;
  }
  return stem;
}

}  // namespace

std::vector<Emoji> read_emoji_list(const std::string& path) {
  std::ifstream file(path);
  if (!file)
    throw InvalidInput(concat("cannot read the emoji list ", path,
                              "; Debian's package unicode-data installs it as ", kEmojiListPath));
  std::vector<Emoji> list;
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    auto malformed = [&](const auto&... what) {
      return InvalidInput(concat(path, ":", number, ": ", what...,
                                 "; expected 'code points ; status # emoji Eversion name', as in "
                                 "'1F600 ; fully-qualified # \U0001F600 E1.0 grinning face'"));
    };
    std::string_view rest = trim(line);
    if (rest.empty() || rest[0] == '#') continue;

    size_t semicolon = rest.find(';');
    if (semicolon == rest.npos) throw malformed("no ';' after the code points");
    std::string_view hexadecimal = trim(rest.substr(0, semicolon));
    rest.remove_prefix(semicolon + 1);
    Emoji emoji;
    while (!hexadecimal.empty()) {
      std::string_view word = take_word(hexadecimal);
      char32_t codepoint = parse_codepoint(word);
      if (codepoint == 0) throw malformed("'", word, "' is not a hexadecimal code point");
      emoji.codepoints += codepoint;
    }
    if (emoji.codepoints.empty()) throw malformed("no code points before ';'");

    size_t hash = rest.find('#');
    if (hash == rest.npos) throw malformed("no '#' after the status");
    std::string_view status = trim(rest.substr(0, hash));
    if (!is_status(status))
      throw malformed("unknown status '", status,
                      "' (known: fully-qualified, minimally-qualified, unqualified, component)");
    rest.remove_prefix(hash + 1);
    take_word(rest);
    std::string_view version = take_word(rest);
    if (!is_version(version)) throw malformed("'", version, "' is not a version such as E1.0");
    if (rest.empty()) throw malformed("no name after the version");
    if (status != "fully-qualified") continue;
    emoji.name = rest;
    emoji.file_stem = stem_of(emoji.codepoints);
    list.push_back(std::move(emoji));
  }
  if (file.bad()) throw InvalidInput(concat("cannot read the emoji list ", path, " to its end"));
  if (list.empty()) throw InvalidInput(concat(path, " holds no fully-qualified emoji"));
  return list;
}

}  // namespace bigmac::data
