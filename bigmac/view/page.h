#pragma once

#include <string>
#include <vector>

#include "bigmac/timeline/recording.h"

namespace bigmac {

struct PageOptions {
  std::string title;       // empty: the recordings' names
  std::string controls{};  // HTML put before the page's own script, trusted as it is: what the panel of
                           // controls begins with and simulates with (bigmac/controls/page_part.h)
};

// One HTML file that shows the recordings, one above the other on one axis of time; it needs nothing else,
// nor a network. Throws InvalidInput where there is no recording or one without ranks.
std::string to_page(const std::vector<Recording>& recordings, const PageOptions& options = {});

}  // namespace bigmac
