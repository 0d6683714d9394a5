#pragma once

#include <string>
#include <vector>

#include "bigmac/data/label.h"
#include "bigmac/data/picture.h"

namespace bigmac::data {

// Writes an RGB PNG to a temporary file beside `path` and renames it, so that no reader sees half a
// file. Throws Failure naming the path and the reason; InvalidInput for a picture without pixels.
void write_png(const std::string& path, const Picture& picture);

// [3, H, W]; a transparent PNG is laid on white. Throws InvalidInput naming the path and the reason.
Picture read_png(const std::string& path);

struct GridStyle {
  int64_t scale = 3;  // each pixel becomes scale x scale
  int64_t gap = 6;    // white pixels around each picture
  std::string label_font = kLabelFontPath;
};

// Rows of pictures of one size on white; rows may differ in length. labels[r][c], where given, is
// written under rows[r][c]; the label font is opened only then.
// Throws InvalidInput where there is no picture, where sizes differ, or where the label font is missing.
Picture picture_grid(const std::vector<std::vector<Picture>>& rows,
                     const std::vector<std::vector<std::string>>& labels = {}, const GridStyle& style = {});

}  // namespace bigmac::data
