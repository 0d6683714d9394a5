#include "bigmac/nn/initialise.h"

#include <ATen/CPUGeneratorImpl.h>

#include <cmath>
#include <string>

#include "bigmac/nn/blocks.h"

namespace bigmac::nn {
namespace {

uint64_t fnv1a(uint64_t seed, std::string_view name) {
  uint64_t hash = 0xcbf29ce484222325;
  auto add = [&](unsigned char byte) { hash = (hash ^ byte) * 0x100000001b3; };
  for (int shift = 0; shift < 64; shift += 8) add(static_cast<unsigned char>(seed >> shift));
  for (char letter : name) add(static_cast<unsigned char>(letter));
  return hash;
}

// The standard deviation for a weight of two or more dimensions in the module called `owner`.
double deviation(std::string_view owner, const torch::Tensor& weight, int64_t residuals) {
  if (owner == "embedding" || owner == "head" || owner == "modulation" || owner == "out") return 0.02;
  auto fan_in = static_cast<double>(weight.numel()) / static_cast<double>(weight.size(0));
  if (owner == "o" || owner == "down") fan_in *= static_cast<double>(residuals);
  return 1 / std::sqrt(fan_in);
}

void fill(torch::nn::Module& module, uint64_t seed, const std::string& prefix, std::string_view owner,
          int64_t residuals) {
  if (const auto* part = dynamic_cast<const Residual*>(&module)) residuals = 2 * part->depth();
  for (auto& item : module.named_parameters(/*recurse=*/false)) {
    auto& parameter = item.value();
    if (item.key() == "bias") {
      parameter.zero_();
    } else if (parameter.dim() < 2) {
      parameter.fill_(1);
    } else {
      // The engine behind the generator keeps 32 bits of its seed.
      auto hash = fnv1a(seed, prefix + item.key());
      auto generator = at::make_generator<at::CPUGeneratorImpl>(hash ^ (hash >> 32));
      auto values = torch::empty(parameter.sizes(), torch::device(torch::kCPU).dtype(torch::kDouble));
      parameter.copy_(values.normal_(0, deviation(owner, parameter, residuals), generator));
    }
  }
  for (auto& child : module.named_children())
    fill(*child.value(), seed, prefix + child.key() + ".", child.key(), residuals);
}

// "llm.head." -> "head"
std::string_view last_part(std::string_view prefix) {
  if (!prefix.empty() && prefix.back() == '.') prefix.remove_suffix(1);
  const auto dot = prefix.rfind('.');
  return dot == std::string_view::npos ? prefix : prefix.substr(dot + 1);
}

}  // namespace

void initialise(torch::nn::Module& module, uint64_t seed, std::string_view prefix) {
  torch::NoGradGuard no_grad;
  fill(module, seed, std::string(prefix), last_part(prefix), 1);
}

}  // namespace bigmac::nn
