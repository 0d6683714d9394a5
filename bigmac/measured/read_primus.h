#pragma once

#include <string>
#include <vector>

#include "bigmac/measured/raw_step.h"
#include "bigmac/measured/read_measured.h"

namespace bigmac {

// Whether a file begins as a rank's Primus pipeline dump does: {"1": ...
bool begins_as_primus(const std::string& beginning);

// The iterations that the ranks' files hold, in order. `config` is the path of config.json, or empty.
std::vector<RawStep> read_primus(const std::vector<std::string>& paths, const std::string& config,
                                 const ReadOptions& options);

}  // namespace bigmac
