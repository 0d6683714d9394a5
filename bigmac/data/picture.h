#pragma once

#include <cstdint>
#include <vector>

namespace bigmac::data {

// An RGB picture in plain memory, laid out like a tensor [3, height, width].
struct Picture {
  int64_t height = 0, width = 0;
  std::vector<uint8_t> bytes;

  Picture() = default;
  Picture(int64_t rows, int64_t columns, uint8_t fill = 255)
      : height(rows), width(columns), bytes(static_cast<size_t>(3 * rows * columns), fill) {}

  uint8_t& at(int64_t channel, int64_t row, int64_t column) {
    return bytes[static_cast<size_t>((channel * height + row) * width + column)];
  }
  uint8_t at(int64_t channel, int64_t row, int64_t column) const {
    return bytes[static_cast<size_t>((channel * height + row) * width + column)];
  }
};

}  // namespace bigmac::data
