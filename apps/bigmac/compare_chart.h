#pragma once

#include "bigmac/picture/chart.h"
#include "bigmac/plan/compare.h"

namespace bigmac {

// Throughput and memory over the batch, a line a system. Where one runs out of memory a cross, and the memory
// of what comes nearest.
Chart chart_of(const Comparison& comparison, const Workload& workload);

}  // namespace bigmac
