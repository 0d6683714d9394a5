#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

#include "bigmac/controls/controls.h"

namespace bigmac {

// {"pp", "vpp", "microbatches", "base" (or null), "group", "schedule", "warmup_units", "generator_unit",
//  "forward", "backward", "weight" (or null), "latency",
//  "encoder": {"forward", "backward", "items"}, "generator": likewise}
nlohmann::ordered_json to_json(const Controls& controls);

// What is left out is as in Controls{}. Throws InvalidInput that names the field for what is no JSON, has
// other fields, or holds what is no number, name or legal count.
Controls controls_from_json(std::string_view text);

}  // namespace bigmac
