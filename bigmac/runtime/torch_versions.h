#pragma once

// Everything that differs between libtorch 1.13 and 2.x stands here.

#include <torch/cuda.h>
#include <torch/types.h>
#include <torch/version.h>

#include <cstddef>
#include <cstdint>
#include <string>

#define BIGMAC_TORCH_AT_LEAST(major, minor) \
  (TORCH_VERSION_MAJOR > (major) || (TORCH_VERSION_MAJOR == (major) && TORCH_VERSION_MINOR >= (minor)))

namespace bigmac {

// The totals in c10::MemoryReportingInfoBase::reportMemoryUsage.
#if BIGMAC_TORCH_AT_LEAST(2, 0)
using MemoryTotal = size_t;
#else
using MemoryTotal = int64_t;
#endif

// Waits for what has been started on a device.
inline void synchronize(torch::Device device) {
  if (device.is_cuda()) torch::cuda::synchronize(device.index());
}

// What torch::optim::Optimizer::state() finds a parameter's state by.
#if BIGMAC_TORCH_AT_LEAST(2, 0)
inline void* optimizer_key(const torch::Tensor& parameter) {
  return parameter.unsafeGetTensorImpl();
}
#else
inline std::string optimizer_key(const torch::Tensor& parameter) {
  return c10::guts::to_string(parameter.unsafeGetTensorImpl());
}
#endif

}  // namespace bigmac
