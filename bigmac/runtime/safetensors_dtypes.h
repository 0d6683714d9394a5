#pragma once

#include <c10/core/ScalarType.h>

#include <bit>
#include <cstdint>
#include <string>

namespace bigmac::safetensors {

static_assert(std::endian::native == std::endian::little, "the data of a safetensors file is little-endian");

constexpr uint64_t kLengthBytes = 8;
constexpr uint64_t kMostHeaderBytes = 100'000'000;
constexpr const char* kMetadata = "__metadata__";

struct Dtype {
  const char* name;
  c10::ScalarType type;
};
constexpr Dtype kDtypes[] = {
    {"F64", c10::ScalarType::Double},    {"F32", c10::ScalarType::Float}, {"F16", c10::ScalarType::Half},
    {"BF16", c10::ScalarType::BFloat16}, {"I64", c10::ScalarType::Long},  {"I32", c10::ScalarType::Int},
    {"U8", c10::ScalarType::Byte},       {"BOOL", c10::ScalarType::Bool},
};

// Null where there is none.
inline const Dtype* find_dtype(const std::string& name) {
  for (const auto& dtype : kDtypes)
    if (dtype.name == name) return &dtype;
  return nullptr;
}
inline const Dtype* find_dtype(c10::ScalarType type) {
  for (const auto& dtype : kDtypes)
    if (dtype.type == type) return &dtype;
  return nullptr;
}

// "F64 F32 ..."
inline std::string known_dtypes() {
  std::string names;
  for (const auto& dtype : kDtypes) {
    if (!names.empty()) names += ' ';
    names += dtype.name;
  }
  return names;
}

}  // namespace bigmac::safetensors
