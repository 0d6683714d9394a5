#include "bigmac/data/text.h"

#include "bigmac/common/error.h"

namespace bigmac::data {

std::vector<int64_t> encode(std::string_view text) {
  std::vector<int64_t> tokens;
  tokens.reserve(text.size());
  for (unsigned char byte : text) tokens.push_back(byte);
  return tokens;
}

std::string decode(const std::vector<int64_t>& tokens) {
  std::string bytes;
  for (int64_t token : tokens) {
    if (token < 0 || token >= kVocabulary)
      throw InvalidInput(concat("token ", token, " is outside the vocabulary 0..", kVocabulary - 1));
    if (token == kEnd) break;
    if (token < kEnd) bytes += static_cast<char>(token);
  }
  std::string text;
  for (size_t position = 0; position < bytes.size();) {
    size_t begin = position;
    auto codepoint = next_codepoint(bytes, position);
    bool printable = codepoint && *codepoint >= 0x20 && !(*codepoint >= 0x7F && *codepoint < 0xA0);
    text += printable ? bytes.substr(begin, position - begin) : "?";
  }
  return text;
}

std::optional<char32_t> next_codepoint(std::string_view text, size_t& position) {
  auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  size_t begin = position++;
  char32_t lead = byte(begin);
  if (lead < 0x80) return lead;

  size_t following = lead >= 0xF0 ? 3 : lead >= 0xE0 ? 2 : 1;
  if (lead < 0xC0 || lead > 0xF7 || begin + following >= text.size()) return std::nullopt;
  char32_t codepoint = lead & (0x3Fu >> following);
  for (size_t i = 1; i <= following; ++i) {
    if ((byte(begin + i) & 0xC0) != 0x80) return std::nullopt;
    codepoint = codepoint << 6 | (byte(begin + i) & 0x3Fu);
  }
  constexpr char32_t kSmallest[] = {0, 0x80, 0x800, 0x10000};
  bool surrogate = codepoint >= 0xD800 && codepoint <= 0xDFFF;
  if (codepoint < kSmallest[following] || codepoint > 0x10FFFF || surrogate) return std::nullopt;
  position = begin + 1 + following;
  return codepoint;
}

}  // namespace bigmac::data
