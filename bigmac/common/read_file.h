#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace bigmac {

// All of a file. Throws InvalidInput as "cannot read 'path': reason": what the system says, a folder ("it is
// a folder; right would be " + right), more than `most_bytes`.
std::string read_file(const std::string& path, size_t most_bytes, std::string_view right = "a file");

}  // namespace bigmac
