#pragma once

#include <torch/types.h>

#include <optional>
#include <string>
#include <vector>

namespace bigmac {

// A dimension of any size, 0 too.
inline constexpr int64_t any = -1;

// A value that a module consumes or produces, by name. What is said of it holds for each tensor of its group
// and is checked: against the other side's when the system is wired, against the tensors when it runs.
struct Port {
  std::string name;
  std::optional<std::vector<int64_t>> shape{};  // none: not said
  std::optional<torch::ScalarType> dtype{};     // none: not said. Floating data arrive in the model's dtype

  Port(const char* port) : name(port) {}
  Port(std::string port) : name(std::move(port)) {}
  Port(std::string port, std::vector<int64_t> sizes, std::optional<torch::ScalarType> type = {})
      : name(std::move(port)), shape(std::move(sizes)), dtype(type) {}
};
using Ports = std::vector<Port>;

// "[any, 128] Float", as far as it is said.
std::string describe(const Port& port);
std::string describe(const torch::Tensor& tensor);

bool fit(const Port& a, const Port& b);
bool fits(const torch::Tensor& tensor, const Port& port);

// The port of a name, or none.
const Port* find_port(const Ports& ports, const std::string& name);
std::vector<std::string> names_of(const Ports& ports);

}  // namespace bigmac
