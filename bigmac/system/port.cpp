#include "bigmac/system/port.h"

#include <algorithm>

#include "bigmac/common/error.h"

namespace bigmac {
namespace {

std::string shape_text(at::IntArrayRef sizes) {
  std::string text = "[";
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (i > 0) text += ", ";
    text += sizes[i] == any ? "any" : std::to_string(sizes[i]);
  }
  return text + "]";
}

// Where data are floating, the model's dtype is what counts.
bool same_kind(torch::ScalarType a, torch::ScalarType b) {
  return a == b || (at::isFloatingType(a) && at::isFloatingType(b));
}

}  // namespace

std::string describe(const Port& port) {
  std::string text = port.shape ? shape_text(*port.shape) : "of any shape";
  if (port.dtype) text += concat(" ", *port.dtype);
  return text;
}

std::string describe(const torch::Tensor& tensor) {
  return concat(shape_text(tensor.sizes()), " ", tensor.scalar_type());
}

bool fit(const Port& a, const Port& b) {
  if (a.dtype && b.dtype && !same_kind(*a.dtype, *b.dtype)) return false;
  if (!a.shape || !b.shape) return true;
  return std::equal(a.shape->begin(), a.shape->end(), b.shape->begin(), b.shape->end(),
                    [](int64_t x, int64_t y) { return x == any || y == any || x == y; });
}

bool fits(const torch::Tensor& tensor, const Port& port) {
  if (port.dtype && !same_kind(tensor.scalar_type(), *port.dtype)) return false;
  if (!port.shape) return true;
  return std::equal(port.shape->begin(), port.shape->end(), tensor.sizes().begin(), tensor.sizes().end(),
                    [](int64_t size, int64_t is) { return size == any || size == is; });
}

const Port* find_port(const Ports& ports, const std::string& name) {
  for (const auto& port : ports)
    if (port.name == name) return &port;
  return nullptr;
}

std::vector<std::string> names_of(const Ports& ports) {
  std::vector<std::string> names;
  for (const auto& port : ports) names.push_back(port.name);
  return names;
}

}  // namespace bigmac
