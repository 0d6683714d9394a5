#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace bigmac::cost {

// The JSON or YAML of a configuration: JSON where it begins with '{' or '['. YAML's plain scalars become
// null, booleans, numbers or strings as in JSON's types, quoted ones strings. Throws InvalidInput
// "[model] file:line:column: ..." for what is neither, empty, not UTF-8, or nested or aliased without end.
nlohmann::json parse_config(std::string_view text, const std::string& source);

// At most `most_bytes` of a file, read no further. Throws InvalidInput where it is missing, a folder, empty
// or larger.
std::string read_config_file(const std::string& path, size_t most_bytes);

}  // namespace bigmac::cost
