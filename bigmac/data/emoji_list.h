#pragma once

#include <string>
#include <vector>

namespace bigmac::data {

inline constexpr const char* kEmojiListPath = "/usr/share/unicode/emoji/emoji-test.txt";

struct Emoji {
  std::u32string codepoints;
  std::string name;       // UTF-8, as in the list: "man cook: light skin tone"
  std::string file_stem;  // lower-case hexadecimal code points: "1f468-1f3fb-200d-1f373"
};

// The fully-qualified entries of Unicode's emoji-test.txt, in the order of the file.
// Throws InvalidInput where the file is missing or holds none, and with file:line: where a line is
// not "code points ; status # emoji Eversion name".
std::vector<Emoji> read_emoji_list(const std::string& path = kEmojiListPath);

}  // namespace bigmac::data
