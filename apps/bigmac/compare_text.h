#pragma once

#include <string>

#include "bigmac/plan/compare.h"

namespace bigmac {

// A comparison as text: speed-ups and memory over all batches, then a table for each batch with every
// system's best configuration, and why some have none.
std::string to_text(const Comparison& comparison, const Workload& workload);

// Whether any system has a configuration that fits, at any batch.
bool any_fits(const Comparison& comparison);

}  // namespace bigmac
