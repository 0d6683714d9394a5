#include "bigmac/view/pack.h"

#include <zlib.h>

#include <vector>

#include "bigmac/common/error.h"

namespace bigmac {
namespace {

std::string base64(const std::vector<uint8_t>& bytes) {
  constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    size_t left = bytes.size() - i;
    uint32_t three = uint32_t(bytes[i]) << 16;
    if (left > 1) three |= uint32_t(bytes[i + 1]) << 8;
    if (left > 2) three |= bytes[i + 2];
    text += kDigits[three >> 18];
    text += kDigits[three >> 12 & 63];
    text += left > 1 ? kDigits[three >> 6 & 63] : '=';
    text += left > 2 ? kDigits[three & 63] : '=';
  }
  return text;
}

}  // namespace

std::string packed(std::string_view bytes) {
  constexpr int kFast = 3;
  uLongf size = compressBound(uLong(bytes.size()));
  std::vector<uint8_t> compressed(size);
  if (compress2(compressed.data(), &size, reinterpret_cast<const Bytef*>(bytes.data()), uLong(bytes.size()),
                kFast) != Z_OK)
    throw Failure(concat("[view] cannot compress ", bytes.size(), " bytes: not enough memory"));
  compressed.resize(size);
  return base64(compressed);
}

}  // namespace bigmac
