#pragma once

#include <string>

#include "bigmac/schedule/table.h"
#include "bigmac/timeline/timeline.h"

namespace bigmac {

// The timeline as an SVG picture: a line a rank, time to the right, operators coloured by module and phase
// (colours that colour-blind people tell apart) with their microbatch where it fits, blank where a rank does
// not compute. `title` stands above it.
std::string to_svg(const Schedule& schedule, const Timeline& timeline, const std::string& title);

}  // namespace bigmac
