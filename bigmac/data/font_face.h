#pragma once

#include <ft2build.h>
#include FT_FREETYPE_H

#include <memory>
#include <string>
#include <type_traits>

namespace bigmac::data {

// A font file opened with FreeType, with a library of its own.
class FontFace {
 public:
  // Throws InvalidInput naming the path and Debian's package where the file is missing or no font.
  FontFace(const std::string& path, const std::string& package);
  FontFace(FontFace&&) noexcept = default;
  FT_Face get() const { return face_.get(); }

 private:
  struct Close {
    void operator()(FT_Library library) const { FT_Done_FreeType(library); }
    void operator()(FT_Face face) const { FT_Done_Face(face); }
  };
  std::unique_ptr<std::remove_pointer_t<FT_Library>, Close> library_;
  std::unique_ptr<std::remove_pointer_t<FT_Face>, Close> face_;
};

}  // namespace bigmac::data
