#pragma once

#include <string>
#include <vector>

#include "bigmac/measured/json_stream.h"
#include "bigmac/measured/raw_step.h"
#include "bigmac/measured/read_measured.h"

namespace bigmac {

// Whether a file begins as a rank's Primus pipeline dump does: {"1": ...
bool begins_as_primus(const std::string& beginning);

// The iterations that the ranks' files hold, in order. `config` is the path of config.json, or empty. With
// `left` files that are cut off and ranks and iterations that are missing are no error, and what cannot be
// read is left out.
std::vector<RawStep> read_primus(const std::vector<std::string>& paths, const std::string& config,
                                 const ReadOptions& options, std::vector<std::string>& notes,
                                 LeftOut* left = nullptr, const json::Progress& progress = {});

}  // namespace bigmac
