#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace bigmac {

// The rank that a file's name says: the number behind the last "rank" in it, else the last number.
// "pp_rank_3.json" 3, "run7/rank12.pt.trace.json.gz" 12, "trace-5.json" 5. None where there is no number.
std::optional<int64_t> rank_of_file(const std::string& path);

}  // namespace bigmac
