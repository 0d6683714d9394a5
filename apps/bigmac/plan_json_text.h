#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "apps/bigmac/plan_text.h"

namespace bigmac {

// A plan as one line of JSON: all of plan_json.h, and `explain` of its best configuration.
std::string to_json(const PlanReport& report);

// One line, bytes of names that are not UTF-8 replaced.
std::string line_of(const nlohmann::ordered_json& json);

}  // namespace bigmac
