#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bigmac/timeline/recording.h"

namespace bigmac {

// What the page says in numbers and words (columns.h).
nlohmann::ordered_json facts_of(const Recording& recording, const std::vector<std::string>& findings);

}  // namespace bigmac
