#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace bigmac {

// The candidate with the smallest edit distance to `name`, or "" where none comes close
// (more than a third of the letters differ, and at least two).
std::string nearest_name(std::string_view name, const std::vector<std::string>& candidates);

// "unknown <what> 'nestd' (did you mean 'nested'?); known: llm-only, nested, three-phase"
std::string unknown_name(std::string_view what, std::string_view name,
                         const std::vector<std::string>& candidates);

}  // namespace bigmac
