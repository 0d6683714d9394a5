#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace bigmac::cost {

// YAML as the JSON that says the same (see parse_config).
nlohmann::json parse_yaml(std::string_view text, const std::string& source);

}  // namespace bigmac::cost
