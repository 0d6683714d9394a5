#pragma once

#include <vector>

#include "bigmac/controls/controls.h"

namespace bigmac {

// Legal ones: every base and arrangement that a P, V and M has, with and without modules and costs of many
// digits.
std::vector<Controls> legal_settings();

}  // namespace bigmac
