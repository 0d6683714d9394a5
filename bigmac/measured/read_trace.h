#pragma once

#include <string>
#include <vector>

#include "bigmac/measured/json_stream.h"
#include "bigmac/measured/raw_step.h"
#include "bigmac/measured/read_measured.h"

namespace bigmac {

// The steps that Chrome traces hold, in order. With `left` files that are cut off and ranks that are missing
// are no error, and what cannot be read is left out.
std::vector<RawStep> read_traces(const std::vector<std::string>& paths, const ReadOptions& options,
                                 std::vector<std::string>& notes, LeftOut* left = nullptr,
                                 const json::Progress& progress = {});

}  // namespace bigmac
