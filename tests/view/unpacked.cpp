#include "tests/view/unpacked.h"

#include <zlib.h>

#include <stdexcept>

namespace bigmac {
namespace {

std::string from_base64(const std::string& text) {
  const std::string digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  int values[256];
  for (int& value : values) value = -1;
  for (int i = 0; i < 64; ++i) values[uint8_t(digits[size_t(i)])] = i;
  std::string bytes;
  uint32_t bits = 0;
  int count = 0;
  for (char letter : text) {
    int value = values[uint8_t(letter)];
    if (value < 0) continue;
    bits = bits << 6 | uint32_t(value);
    if ((count += 6) < 8) continue;
    count -= 8;
    bytes += char(bits >> count);
  }
  return bytes;
}

std::string inflated(const std::string& compressed) {
  std::string bytes(16, '\0');
  while (true) {
    uLongf size = bytes.size();
    int result = uncompress(reinterpret_cast<Bytef*>(bytes.data()), &size,
                            reinterpret_cast<const Bytef*>(compressed.data()), compressed.size());
    if (result == Z_OK) return bytes.substr(0, size);
    if (result != Z_BUF_ERROR) throw std::runtime_error("no zlib");
    bytes.resize(bytes.size() * 4);
  }
}

}  // namespace

Unpacked unpacked(const std::string& bytes) {
  auto byte = [&](size_t at) { return uint32_t(uint8_t(bytes.at(at))); };
  size_t size = byte(0) | byte(1) << 8 | byte(2) << 16 | byte(3) << 24;
  Unpacked made{nlohmann::json::parse(bytes.substr(4, size)), {}};
  size_t at = 4 + size;
  for (const auto& column : made.facts["columns"]) {
    size_t count = column[2];
    auto& values = made.columns[column[0]];
    for (size_t i = 0; i < count; ++i)
      values.push_back(column[1] == "u1"
                           ? byte(at + i)
                           : byte(at + i) | byte(at + count + i) << 8 | byte(at + 2 * count + i) << 16 |
                                 byte(at + 3 * count + i) << 24);
    at += count * (column[1] == "u1" ? 1 : 4);
  }
  if (at != bytes.size()) throw std::runtime_error("bytes are left over");
  return made;
}

std::vector<std::string> recordings_in(const std::string& page) {
  const std::string before = "class=\"recording\">";
  std::vector<std::string> found;
  for (size_t at = page.find(before); at != std::string::npos; at = page.find(before, at)) {
    at += before.size();
    found.push_back(inflated(from_base64(page.substr(at, page.find('<', at) - at))));
  }
  return found;
}

}  // namespace bigmac
