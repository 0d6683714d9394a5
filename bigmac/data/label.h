#pragma once

#include <string>
#include <string_view>

#include "bigmac/data/font_face.h"
#include "bigmac/data/picture.h"

namespace bigmac::data {

inline constexpr const char* kLabelFontPath = "/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf";

// Small black text on white, for the grids of pictures.
class LabelFont {
 public:
  // Throws InvalidInput naming the path and Debian's package where the font is missing.
  explicit LabelFont(const std::string& path = kLabelFontPath, int64_t pixels = 11);

  // [3, lines * line height, width]: the text wrapped at spaces into at most `most_lines` lines; what
  // does not fit is cut off.
  Picture render(std::string_view text, int64_t width, int64_t most_lines = 3) const;

 private:
  FontFace face_;
};

}  // namespace bigmac::data
