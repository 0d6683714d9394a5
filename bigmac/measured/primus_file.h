#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "bigmac/measured/json_stream.h"
#include "bigmac/measured/left_out.h"

namespace bigmac {

// What a rank's Primus pipeline dump says of an iteration, as it is written: lists by key, milliseconds, GiB.
struct PrimusIteration {
  std::map<std::string, std::vector<double>> lists{};
  double total = -1, memory = -1;
};

struct PrimusFile {
  std::map<int64_t, PrimusIteration> iterations{};
  std::optional<json::Break> cut{};  // where the file stops being readable
};

// Throws InvalidInput for what is no such dump. With `left` it is read as far as it goes, and what cannot be
// read is left out; numbers of a list that are none are NaN.
PrimusFile read_primus_file(const std::string& path, LeftOut* left = nullptr,
                            const json::Progress& progress = {});

}  // namespace bigmac
