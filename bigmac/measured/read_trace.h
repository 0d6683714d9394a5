#pragma once

#include <string>
#include <vector>

#include "bigmac/measured/raw_step.h"
#include "bigmac/measured/read_measured.h"

namespace bigmac {

// The steps that Chrome traces hold, in order.
std::vector<RawStep> read_traces(const std::vector<std::string>& paths, const ReadOptions& options,
                                 std::vector<std::string>& notes);

}  // namespace bigmac
