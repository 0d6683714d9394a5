#pragma once

// Everything that differs between libtorch 1.13 and 2.x stands here.

#include <torch/version.h>

#include <cstddef>
#include <cstdint>

#define BIGMAC_TORCH_AT_LEAST(major, minor) \
  (TORCH_VERSION_MAJOR > (major) || (TORCH_VERSION_MAJOR == (major) && TORCH_VERSION_MINOR >= (minor)))

namespace bigmac {

// The totals in c10::MemoryReportingInfoBase::reportMemoryUsage.
#if BIGMAC_TORCH_AT_LEAST(2, 0)
using MemoryTotal = size_t;
#else
using MemoryTotal = int64_t;
#endif

}  // namespace bigmac
