#pragma once

#include <nlohmann/json_fwd.hpp>

#include "bigmac/analysis/analyse.h"

namespace bigmac {

// All of an analysis; times in seconds, shares of the step or of P * step as the keys say.
nlohmann::ordered_json to_json(const Recording& recording, const Analysis& analysis);

}  // namespace bigmac
