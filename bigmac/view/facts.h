#pragma once

#include <nlohmann/json.hpp>
#include <vector>

#include "bigmac/timeline/recording.h"
#include "bigmac/view/waits.h"

namespace bigmac {

// What the page says in numbers and words (columns.h).
nlohmann::ordered_json facts_of(const Recording& recording, const std::vector<PathStep>& path,
                                const std::vector<std::vector<NamedWait>>& waits);

}  // namespace bigmac
