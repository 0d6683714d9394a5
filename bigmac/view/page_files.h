#pragma once

#include <string_view>

namespace bigmac {

// The files under page/, put in by embed.cmake.
std::string_view page_body();
std::string_view page_style();
std::string_view page_script();

}  // namespace bigmac
