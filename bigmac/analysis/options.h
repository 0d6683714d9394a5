#pragma once

#include <cstdint>

#include "bigmac/formats/layout.h"

namespace bigmac {

struct AnalysisOptions {
  // Operators of all the tables that are made to find a better one; this many take about a second.
  int64_t most_operators = 1'500'000;
  Layout layout{};  // what each stage of the recorded step holds; without stages where that is not known
};

}  // namespace bigmac
