#include "bigmac/data/label.h"

#include <algorithm>
#include <vector>

#include "bigmac/common/error.h"
#include "bigmac/data/text.h"

namespace bigmac::data {
namespace {

int64_t advance_of(FT_Face face, char32_t letter) {
  return FT_Load_Char(face, letter, FT_LOAD_DEFAULT) == 0 ? face->glyph->advance.x >> 6 : 0;
}

std::vector<std::u32string> wrap(FT_Face face, const std::u32string& text, int64_t width) {
  std::vector<std::u32string> lines(1);
  int64_t used = 0;
  for (size_t begin = 0; begin < text.size();) {
    size_t space = text.find(U' ', begin);
    size_t end = space == text.npos ? text.size() : space + 1;
    int64_t word = 0;
    for (size_t i = begin; i < end; ++i) word += text[i] == U' ' ? 0 : advance_of(face, text[i]);
    if (used > 0 && used + word > width) {
      lines.emplace_back();
      used = 0;
    }
    lines.back() += text.substr(begin, end - begin);
    used += word + advance_of(face, U' ');
    begin = end;
  }
  return lines;
}

}  // namespace

LabelFont::LabelFont(const std::string& path, int64_t pixels) : face_(path, "fonts-dejavu-core") {
  if (pixels < 4 || pixels > 256)
    throw InvalidInput(concat("a label's size is ", pixels, " pixels; it must be from 4 to 256"));
  if (FT_Error error = FT_Set_Pixel_Sizes(face_.get(), 0, static_cast<FT_UInt>(pixels)); error != 0)
    throw InvalidInput(
        concat("the font ", path, " cannot be scaled to ", pixels, " pixels (error ", error, ")"));
}

Picture LabelFont::render(std::string_view text, int64_t width, int64_t most_lines) const {
  FT_Face face = face_.get();
  std::u32string letters;
  for (size_t position = 0; position < text.size();) letters += next_codepoint(text, position).value_or(U'?');
  auto lines = wrap(face, letters, width);
  lines.resize(std::min(lines.size(), static_cast<size_t>(most_lines)));

  int64_t line_height = face->size->metrics.height >> 6, ascent = face->size->metrics.ascender >> 6;
  Picture picture(line_height * static_cast<int64_t>(lines.size()), width);
  for (size_t line = 0; line < lines.size(); ++line) {
    int64_t pen = 0, baseline = static_cast<int64_t>(line) * line_height + ascent;
    for (char32_t letter : lines[line]) {
      if (FT_Load_Char(face, letter, FT_LOAD_RENDER) != 0) continue;
      const FT_Bitmap& bitmap = face->glyph->bitmap;
      if (pen + (face->glyph->advance.x >> 6) > width) break;
      for (int64_t y = 0; bitmap.pixel_mode == FT_PIXEL_MODE_GRAY && y < bitmap.rows; ++y)
        for (int64_t x = 0; x < bitmap.width; ++x) {
          int64_t row = baseline - face->glyph->bitmap_top + y, column = pen + face->glyph->bitmap_left + x;
          if (row < 0 || row >= picture.height || column < 0 || column >= width) continue;
          auto ink = static_cast<uint8_t>(255 - bitmap.buffer[y * bitmap.pitch + x]);
          for (int64_t channel = 0; channel < 3; ++channel)
            picture.at(channel, row, column) = std::min(picture.at(channel, row, column), ink);
        }
      pen += face->glyph->advance.x >> 6;
    }
  }
  return picture;
}

}  // namespace bigmac::data
