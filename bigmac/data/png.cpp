#include "bigmac/data/png.h"

#include <png.h>

#include <algorithm>
#include <optional>

#include "bigmac/common/atomic_file.h"
#include "bigmac/common/error.h"

namespace bigmac::data {
namespace {

struct PngImage {
  png_image image{};
  PngImage() { image.version = PNG_IMAGE_VERSION; }
  ~PngImage() { png_image_free(&image); }
  PngImage(const PngImage&) = delete;
  PngImage& operator=(const PngImage&) = delete;
};

// [H, W, 3]
std::vector<uint8_t> interleaved(const Picture& picture) {
  std::vector<uint8_t> bytes;
  bytes.reserve(picture.bytes.size());
  for (int64_t row = 0; row < picture.height; ++row)
    for (int64_t column = 0; column < picture.width; ++column)
      for (int64_t channel = 0; channel < 3; ++channel) bytes.push_back(picture.at(channel, row, column));
  return bytes;
}

void paste(Picture& canvas, const Picture& picture, int64_t scale, int64_t top, int64_t left) {
  for (int64_t channel = 0; channel < 3; ++channel)
    for (int64_t row = 0; row < picture.height * scale; ++row)
      for (int64_t column = 0; column < picture.width * scale; ++column)
        canvas.at(channel, top + row, left + column) = picture.at(channel, row / scale, column / scale);
}

}  // namespace

void write_png(const std::string& path, const Picture& picture) {
  if (picture.height < 1 || picture.width < 1 ||
      picture.bytes.size() != static_cast<size_t>(3 * picture.height * picture.width))
    throw InvalidInput(concat("cannot write ", path, ": ", picture.bytes.size(), " bytes are no picture [3, ",
                              picture.height, ", ", picture.width, "]"));
  PngImage png;
  png.image.width = static_cast<png_uint_32>(picture.width);
  png.image.height = static_cast<png_uint_32>(picture.height);
  png.image.format = PNG_FORMAT_RGB;
  auto pixels = interleaved(picture);
  png_alloc_size_t size = PNG_IMAGE_PNG_SIZE_MAX(png.image);
  std::vector<uint8_t> bytes(size);
  if (!png_image_write_to_memory(&png.image, bytes.data(), &size, 0, pixels.data(), 0, nullptr))
    throw Failure(concat("cannot write ", path, ": ", png.image.message));
  AtomicFile file(path);
  file.write(bytes.data(), size);
  file.publish();
}

Picture read_png(const std::string& path) {
  PngImage png;
  if (!png_image_begin_read_from_file(&png.image, path.c_str()))
    throw InvalidInput(concat("cannot read ", path, ": ", png.image.message));
  constexpr uint64_t kMostPixels = uint64_t{1} << 26;
  if (uint64_t{png.image.width} * png.image.height > kMostPixels)
    throw InvalidInput(concat("cannot read ", path, ": more than ", kMostPixels, " pixels"));
  png.image.format = PNG_FORMAT_RGB;
  std::vector<uint8_t> pixels(PNG_IMAGE_SIZE(png.image));
  png_color white{255, 255, 255};
  if (!png_image_finish_read(&png.image, &white, pixels.data(), 0, nullptr))
    throw InvalidInput(concat("cannot read ", path, ": ", png.image.message));
  Picture picture(png.image.height, png.image.width);
  const uint8_t* pixel = pixels.data();
  for (int64_t row = 0; row < picture.height; ++row)
    for (int64_t column = 0; column < picture.width; ++column)
      for (int64_t channel = 0; channel < 3; ++channel) picture.at(channel, row, column) = *pixel++;
  return picture;
}

Picture picture_grid(const std::vector<std::vector<Picture>>& rows,
                     const std::vector<std::vector<std::string>>& labels, const GridStyle& style) {
  if (style.scale < 1 || style.gap < 0)
    throw InvalidInput(concat("a grid's scale is ", style.scale, " and its gap ", style.gap,
                              "; they must be at least 1 and 0"));
  const Picture* first = nullptr;
  size_t columns = 0;
  for (const auto& row : rows) {
    columns = std::max(columns, row.size());
    for (const auto& picture : row) {
      if (!first) first = &picture;
      if (picture.height != first->height || picture.width != first->width)
        throw InvalidInput(concat("a grid's pictures differ in size: ", first->height, "x", first->width,
                                  " and ", picture.height, "x", picture.width));
    }
  }
  if (!first) throw InvalidInput("a grid needs at least one picture");
  int64_t cell_height = first->height * style.scale, cell_width = first->width * style.scale;

  std::optional<LabelFont> font;
  std::vector<std::vector<Picture>> captions(rows.size());
  std::vector<int64_t> caption_heights(rows.size());
  int64_t height = style.gap;
  for (size_t r = 0; r < rows.size(); ++r) {
    for (size_t c = 0; r < labels.size() && c < std::min(rows[r].size(), labels[r].size()); ++c) {
      if (!font) font.emplace(style.label_font);
      captions[r].push_back(font->render(labels[r][c], cell_width));
      caption_heights[r] = std::max(caption_heights[r], captions[r].back().height);
    }
    height += cell_height + caption_heights[r] + style.gap;
  }

  Picture canvas(height, style.gap + static_cast<int64_t>(columns) * (cell_width + style.gap));
  int64_t top = style.gap;
  for (size_t r = 0; r < rows.size(); ++r) {
    for (size_t c = 0; c < rows[r].size(); ++c) {
      int64_t left = style.gap + static_cast<int64_t>(c) * (cell_width + style.gap);
      paste(canvas, rows[r][c], style.scale, top, left);
      if (c < captions[r].size()) paste(canvas, captions[r][c], 1, top + cell_height, left);
    }
    top += cell_height + caption_heights[r] + style.gap;
  }
  return canvas;
}

}  // namespace bigmac::data
