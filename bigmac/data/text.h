#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace bigmac::data {

// Text is a sequence of UTF-8 bytes, one token each, and a few special tokens.
enum SpecialToken : int64_t {
  kEnd = 256,      // ends a caption
  kPicture = 257,  // stands where a row of the encoder's output goes in
  kDraw = 258,     // begins a caption that is to be drawn
  kPad = 259,
  kSound = 260,  // stands where a row of the audio encoder's output goes in
};
inline constexpr int64_t kVocabulary = 264;  // 261..263 are not used

std::vector<int64_t> encode(std::string_view text);

// The text up to the first `end`, fit for a terminal: control characters and bytes that are not valid
// UTF-8 become '?', special tokens are left out. Throws InvalidInput for a token outside the vocabulary.
std::string decode(const std::vector<int64_t>& tokens);

// The code point at text[position], and `position` moved past it; none, and one byte further, where
// the bytes there are not valid UTF-8.
std::optional<char32_t> next_codepoint(std::string_view text, size_t& position);

}  // namespace bigmac::data
