#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "bigmac/data/picture.h"

namespace bigmac::data {

inline constexpr const char* kEmojiFontPath = "/usr/share/fonts/truetype/noto/NotoColorEmoji.ttf";

// A font with a colour bitmap for each emoji. Not for use by several threads at once.
class EmojiFont {
 public:
  // Throws InvalidInput naming the path and Debian's package where the file is missing, is no font,
  // or has no colour bitmaps.
  explicit EmojiFont(const std::string& path = kEmojiFontPath);
  ~EmojiFont();
  EmojiFont(EmojiFont&&) noexcept;
  EmojiFont& operator=(EmojiFont&&) noexcept;

  // The one glyph that the sequence is shaped into; none where the font would draw several or lacks it.
  std::optional<uint32_t> glyph(std::u32string_view codepoints) const;

  // The sequence's picture on white, padded to a square and area-averaged to [3, side, side];
  // none where glyph() finds none. Throws InvalidInput for a side outside 1..1024.
  std::optional<Picture> render(std::u32string_view codepoints, int64_t side) const;

 private:
  struct Handles;
  std::unique_ptr<Handles> handles_;
};

}  // namespace bigmac::data
