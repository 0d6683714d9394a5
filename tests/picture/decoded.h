#pragma once

#include <png.h>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace bigmac {

// A PNG's pixels as 0xRRGGBB.
struct Decoded {
  int64_t width = 0, height = 0;
  std::vector<uint32_t> pixels;

  explicit Decoded(const std::string& png) {
    png_image image{};
    image.version = PNG_IMAGE_VERSION;
    if (!png_image_begin_read_from_memory(&image, png.data(), png.size()))
      throw std::runtime_error(image.message);
    image.format = PNG_FORMAT_RGB;
    std::vector<uint8_t> bytes(PNG_IMAGE_SIZE(image));
    if (!png_image_finish_read(&image, nullptr, bytes.data(), 0, nullptr))
      throw std::runtime_error(image.message);
    width = image.width;
    height = image.height;
    for (size_t n = 0; n + 2 < bytes.size(); n += 3)
      pixels.push_back(uint32_t(bytes[n]) << 16 | uint32_t(bytes[n + 1]) << 8 | bytes[n + 2]);
  }
  uint32_t at(int64_t x, int64_t y) const { return pixels.at(size_t(y * width + x)); }
  int64_t count(uint32_t colour, int64_t left, int64_t right) const {
    int64_t found = 0;
    for (int64_t y = 0; y < height; ++y)
      for (int64_t x = left; x < right; ++x) found += at(x, y) == colour;
    return found;
  }
  int64_t count(uint32_t colour) const { return count(colour, 0, width); }
};

}  // namespace bigmac
