#pragma once

#include <string>
#include <string_view>

#include "bigmac/profile/event.h"

namespace bigmac {

// Of whom the events are as JSON, and back: {"rank", "ranks", "chunks", "modules": [{"name", "kind",
// "trained"}]}. Names may hold any bytes. from_declaration throws InvalidInput that says what is wrong.
std::string to_declaration(const Profiled& of);
Profiled from_declaration(std::string_view text);

}  // namespace bigmac
