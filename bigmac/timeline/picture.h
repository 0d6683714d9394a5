#pragma once

#include <optional>
#include <string>

#include "bigmac/timeline/recording.h"

namespace bigmac {

struct PictureOptions {
  std::string title{};
  std::optional<double> from{}, to{};  // a part of the step, in its unit of time from its start
  bool critical_path = false;          // outlines the operators that the step's end hangs on
  double width = 1200;                 // pixels
};

// A step as an SVG picture: a line a rank, time to the right, operators coloured by module and phase
// (colours that colour-blind people tell apart) with their microbatch where it fits; transfers and waits for
// the order of messages in grey; blank where a rank has nothing to do. Operators that are narrower than a
// pixel run together, so that the picture of a million of them is not larger than that of what can be seen.
// Throws InvalidInput for a part that is none.
std::string to_svg(const Recording& recording, const PictureOptions& options = {});
std::string to_svg(const Schedule& schedule, const Timeline& timeline, const std::string& title);

}  // namespace bigmac
