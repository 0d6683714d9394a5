#include "bigmac/data/glyphs.h"

#include <hb.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "bigmac/common/error.h"
#include "bigmac/data/font_face.h"

namespace bigmac::data {
namespace {

constexpr const char* kPackage = "fonts-noto-color-emoji";
constexpr char32_t kEmojiPresentation = 0xFE0F;

struct Release {
  void operator()(hb_blob_t* blob) const { hb_blob_destroy(blob); }
  void operator()(hb_face_t* face) const { hb_face_destroy(face); }
  void operator()(hb_font_t* font) const { hb_font_destroy(font); }
  void operator()(hb_buffer_t* buffer) const { hb_buffer_destroy(buffer); }
};
template <class T>
using Owned = std::unique_ptr<T, Release>;

// The share of each source pixel in one pixel of the result: source[first + i] * weights[i].
struct Span {
  int64_t first = 0;
  std::vector<float> weights;
};

// Area averaging of `length` pixels, centred in `padded`, to `side` pixels. The weights of a span sum
// to less than one where it reaches into the padding.
std::vector<Span> area_spans(int64_t length, int64_t padded, int64_t side) {
  double step = static_cast<double>(padded) / static_cast<double>(side);
  double offset = std::floor(static_cast<double>(padded - length) / 2);
  std::vector<Span> spans(static_cast<size_t>(side));
  for (int64_t i = 0; i < side; ++i) {
    double begin = std::max(0.0, static_cast<double>(i) * step - offset);
    double end = std::min(static_cast<double>(length), static_cast<double>(i + 1) * step - offset);
    auto& span = spans[static_cast<size_t>(i)];
    span.first = static_cast<int64_t>(begin);
    for (int64_t pixel = span.first; static_cast<double>(pixel) < end; ++pixel) {
      double low = std::max(begin, static_cast<double>(pixel));
      double high = std::min(end, static_cast<double>(pixel + 1));
      span.weights.push_back(static_cast<float>((high - low) / step));
    }
  }
  return spans;
}

// `bitmap` holds premultiplied BGRA; on white a pixel is colour + 255 - alpha. What is averaged is
// the distance to white, alpha - colour, so that the padding counts as zero.
Picture average_on_white(const FT_Bitmap& bitmap, int64_t side) {
  int64_t height = bitmap.rows, width = bitmap.width, padded = std::max(height, width);
  auto columns = area_spans(width, padded, side), rows = area_spans(height, padded, side);

  std::vector<float> narrowed(static_cast<size_t>(height * side * 3));
  for (int64_t row = 0; row < height; ++row) {
    const unsigned char* source = bitmap.buffer + row * bitmap.pitch;
    float* out = narrowed.data() + row * side * 3;
    for (const Span& span : columns) {
      float red = 0, green = 0, blue = 0;
      const unsigned char* pixel = source + span.first * 4;
      for (float weight : span.weights) {
        float alpha = pixel[3];
        red += weight * (alpha - static_cast<float>(pixel[2]));
        green += weight * (alpha - static_cast<float>(pixel[1]));
        blue += weight * (alpha - static_cast<float>(pixel[0]));
        pixel += 4;
      }
      *out++ = red;
      *out++ = green;
      *out++ = blue;
    }
  }

  Picture picture(side, side);
  std::vector<float> sums(static_cast<size_t>(side * 3));
  for (int64_t row = 0; row < side; ++row) {
    std::fill(sums.begin(), sums.end(), 0.0f);
    const Span& span = rows[static_cast<size_t>(row)];
    const float* source = narrowed.data() + span.first * side * 3;
    for (float weight : span.weights)
      for (float& sum : sums) sum += weight * *source++;
    for (int64_t column = 0; column < side; ++column)
      for (int64_t channel = 0; channel < 3; ++channel)
        picture.at(channel, row, column) = static_cast<uint8_t>(
            std::clamp(std::lround(255.0f - sums[static_cast<size_t>(column * 3 + channel)]), 0L, 255L));
  }
  return picture;
}

}  // namespace

struct EmojiFont::Handles {
  FontFace face;
  Owned<hb_font_t> font;
  Owned<hb_buffer_t> buffer;
};

EmojiFont::EmojiFont(const std::string& path) {
  FontFace face(path, kPackage);
  FT_Face opened = face.get();
  if (!FT_HAS_COLOR(opened) || !FT_HAS_FIXED_SIZES(opened))
    throw InvalidInput(concat("the font ", path, " has no colour bitmaps (a CBDT table); Debian's package ",
                              kPackage, " has one that does"));
  int largest = 0;
  for (int i = 1; i < opened->num_fixed_sizes; ++i)
    if (opened->available_sizes[i].y_ppem > opened->available_sizes[largest].y_ppem) largest = i;
  if (FT_Error error = FT_Select_Size(opened, largest); error != 0)
    throw InvalidInput(concat("FreeType cannot use the bitmaps of ", path, " (error ", error, ")"));

  Owned<hb_blob_t> blob(hb_blob_create_from_file(path.c_str()));
  if (hb_blob_get_length(blob.get()) == 0) throw Failure(concat("HarfBuzz cannot read ", path));
  Owned<hb_face_t> shaped(hb_face_create(blob.get(), 0));
  Owned<hb_font_t> font(hb_font_create(shaped.get()));
  Owned<hb_buffer_t> buffer(hb_buffer_create());
  handles_ = std::make_unique<Handles>(Handles{std::move(face), std::move(font), std::move(buffer)});
}

EmojiFont::~EmojiFont() = default;
EmojiFont::EmojiFont(EmojiFont&&) noexcept = default;
EmojiFont& EmojiFont::operator=(EmojiFont&&) noexcept = default;

std::optional<uint32_t> EmojiFont::glyph(std::u32string_view codepoints) const {
  // The variation selector only asks for the colour form, which is the only one in such a font.
  std::vector<uint32_t> sequence;
  for (char32_t codepoint : codepoints)
    if (codepoint != kEmojiPresentation) sequence.push_back(codepoint);
  if (sequence.empty()) return std::nullopt;

  hb_buffer_t* buffer = handles_->buffer.get();
  hb_buffer_clear_contents(buffer);
  hb_buffer_set_content_type(buffer, HB_BUFFER_CONTENT_TYPE_UNICODE);
  hb_buffer_set_direction(buffer, HB_DIRECTION_LTR);
  hb_buffer_set_script(buffer, HB_SCRIPT_COMMON);
  // Invisible code points (joiners, tags) stay in the result, so that a sequence which the font knows
  // only in part does not pass for one glyph.
  hb_buffer_set_flags(buffer, HB_BUFFER_FLAG_PRESERVE_DEFAULT_IGNORABLES);
  int length = static_cast<int>(sequence.size());
  hb_buffer_add_utf32(buffer, sequence.data(), length, 0, length);
  hb_shape(handles_->font.get(), buffer, nullptr, 0);

  unsigned count = 0;
  const hb_glyph_info_t* glyphs = hb_buffer_get_glyph_infos(buffer, &count);
  if (count != 1 || glyphs[0].codepoint == 0) return std::nullopt;
  return glyphs[0].codepoint;
}

std::optional<Picture> EmojiFont::render(std::u32string_view codepoints, int64_t side) const {
  if (side < 1 || side > 1024)
    throw InvalidInput(concat("a picture's side is ", side, " pixels; it must be from 1 to 1024"));
  auto found = glyph(codepoints);
  FT_Face face = handles_->face.get();
  if (!found || FT_Load_Glyph(face, *found, FT_LOAD_COLOR) != 0) return std::nullopt;
  const FT_Bitmap& bitmap = face->glyph->bitmap;
  if (bitmap.pixel_mode != FT_PIXEL_MODE_BGRA || bitmap.rows == 0 || bitmap.width == 0) return std::nullopt;
  return average_on_white(bitmap, side);
}

}  // namespace bigmac::data
