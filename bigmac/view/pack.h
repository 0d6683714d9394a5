#pragma once

#include <string>
#include <string_view>

namespace bigmac {

// zlib, then base64, as a browser undoes it. Throws Failure where there is no memory for it.
std::string packed(std::string_view bytes);

}  // namespace bigmac
