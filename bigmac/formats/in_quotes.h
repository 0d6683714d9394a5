#pragma once

#include <string>
#include <string_view>

namespace bigmac {

// A piece of a file for an error message: in single quotes, unprintable bytes, quotes and backslashes escaped
// ('0F0\x01'), and with "..." behind its first 40 bytes where it is longer.
std::string in_quotes(std::string_view text);

// The same without the quotes around it.
std::string escaped(std::string_view text);

}  // namespace bigmac
