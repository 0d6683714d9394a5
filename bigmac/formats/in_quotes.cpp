#include "bigmac/formats/in_quotes.h"

#include <cstdint>

namespace bigmac {
namespace {

constexpr size_t kMostBytes = 40;

void append_escaped(std::string& out, char byte) {
  constexpr char kHex[] = "0123456789abcdef";
  if (byte == '\\' || byte == '\'')
    out += {'\\', byte};
  else if (byte >= ' ' && byte <= '~')
    out += byte;
  else if (byte == '\r' || byte == '\n' || byte == '\t')
    out += {'\\', byte == '\r' ? 'r' : byte == '\n' ? 'n' : 't'};
  else
    out += {'\\', 'x', kHex[uint8_t(byte) >> 4], kHex[uint8_t(byte) & 15]};
}

}  // namespace

std::string escaped(std::string_view text) {
  std::string out;
  for (char byte : text.substr(0, kMostBytes)) append_escaped(out, byte);
  return text.size() > kMostBytes ? out + "..." : out;
}

std::string in_quotes(std::string_view text) {
  std::string out = "'";
  return (out += escaped(text)) += '\'';
}

}  // namespace bigmac
