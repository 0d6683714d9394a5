#pragma once

#include <torch/types.h>

#include <cstdint>

#include "bigmac/common/error.h"

// Checks of what callers give. All throw InvalidInput which names the tensor or the field, what it is and
// what was expected.
namespace bigmac::nn {

inline constexpr int64_t any_size = -1;

template <class... Parts>
void expect(bool holds, const Parts&... parts) {
  if (!holds) throw InvalidInput(concat(parts...));
}

// The shape must be `expected`, where any_size stands for one or more.
void expect_shape(const torch::Tensor& tensor, const char* name, at::IntArrayRef expected);
// The last dimension must be `width`; there may be any number before it.
void expect_width(const torch::Tensor& tensor, const char* name, int64_t width);
void expect_type(const torch::Tensor& tensor, const char* name, torch::ScalarType type);
// `what` is the configuration's name, as in "vision: picture 30 is not divisible by patch 4".
void expect_positive(const char* what, const char* name, int64_t value);
void expect_divisible(const char* what, const char* name, int64_t value, const char* by, int64_t divisor);

}  // namespace bigmac::nn
