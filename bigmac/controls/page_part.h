#pragma once

#include <string>
#include <string_view>

#include "bigmac/controls/controls.h"

namespace bigmac {

// The scheduler and simulator as WebAssembly (exports.h); empty where bigmac was built without.
std::string_view engine();

struct PagePart {
  bool open = false;    // the panel is what the page shows first
  bool server = false;  // the page comes from a server that answers POST simulate (answer.h)
};

// PageOptions::controls of a page whose controls begin with these. Empty where nothing could simulate:
// without an engine and without a server.
std::string controls_part(const NearestControls& start, const PagePart& part = {});

}  // namespace bigmac
