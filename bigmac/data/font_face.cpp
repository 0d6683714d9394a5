#include "bigmac/data/font_face.h"

#include <fstream>

#include "bigmac/common/error.h"

namespace bigmac::data {

FontFace::FontFace(const std::string& path, const std::string& package) {
  if (!std::ifstream(path))
    throw InvalidInput(concat("cannot read the font ", path, "; Debian's package ", package, " installs it"));
  FT_Library library = nullptr;
  if (FT_Error error = FT_Init_FreeType(&library); error != 0)
    throw Failure(concat("FreeType does not start (error ", error, ")"));
  library_.reset(library);
  FT_Face face = nullptr;
  if (FT_Error error = FT_New_Face(library, path.c_str(), 0, &face); error != 0)
    throw InvalidInput(concat(path, " is not a font that FreeType reads (error ", error,
                              "); Debian's package ", package, " has the one expected here"));
  face_.reset(face);
}

}  // namespace bigmac::data
