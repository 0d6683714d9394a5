#include "bigmac/nn/check.h"

#include <string>

namespace bigmac::nn {
namespace {

std::string shape_text(at::IntArrayRef sizes) {
  std::string text = "[";
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (i > 0) text += ", ";
    text += sizes[i] == any_size ? "any" : std::to_string(sizes[i]);
  }
  return text + "]";
}

bool shape_fits(at::IntArrayRef sizes, at::IntArrayRef expected) {
  if (sizes.size() != expected.size()) return false;
  for (size_t i = 0; i < sizes.size(); ++i)
    if (expected[i] == any_size ? sizes[i] < 1 : sizes[i] != expected[i]) return false;
  return true;
}

}  // namespace

void expect_shape(const torch::Tensor& tensor, const char* name, at::IntArrayRef expected) {
  if (!tensor.defined()) throw InvalidInput(concat(name, ": undefined, expected ", shape_text(expected)));
  if (!shape_fits(tensor.sizes(), expected))
    throw InvalidInput(
        concat(name, ": shape ", shape_text(tensor.sizes()), ", expected ", shape_text(expected)));
}

void expect_width(const torch::Tensor& tensor, const char* name, int64_t width) {
  expect(tensor.defined(), name, ": undefined, expected [..., ", width, "]");
  if (tensor.dim() == 0 || tensor.size(-1) != width)
    throw InvalidInput(concat(name, ": shape ", shape_text(tensor.sizes()), ", expected [..., ", width, "]"));
}

void expect_type(const torch::Tensor& tensor, const char* name, torch::ScalarType type) {
  auto text = [](torch::ScalarType of) -> std::string {
    if (of == torch::kBool) return "bool";
    if (of == torch::kLong) return "int64";
    return c10::toString(of);
  };
  if (tensor.scalar_type() != type)
    throw InvalidInput(concat(name, ": type ", text(tensor.scalar_type()), ", expected ", text(type)));
}

void expect_positive(const char* what, const char* name, int64_t value) {
  expect(value > 0, what, ": ", name, " is ", value, ", expected at least 1");
}

void expect_divisible(const char* what, const char* name, int64_t value, const char* by, int64_t divisor) {
  expect(value % divisor == 0, what, ": ", name, ' ', value, " is not divisible by ", by, *by ? " " : "",
         divisor);
}

}  // namespace bigmac::nn
