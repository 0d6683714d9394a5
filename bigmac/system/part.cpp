#include "bigmac/system/part.h"

#include <ATen/Context.h>
#include <fnmatch.h>

#include <algorithm>
#include <mutex>

#include "bigmac/common/error.h"

namespace bigmac {
namespace {

// 64-bit FNV-1a over the seed's bytes and the name.
uint64_t hash_of(uint64_t seed, const std::string& name) {
  uint64_t hash = 14695981039346656037u;
  auto take = [&](uint8_t byte) { hash = (hash ^ byte) * 1099511628211u; };
  for (int i = 0; i < 8; ++i) take(uint8_t(seed >> (8 * i)));
  for (char c : name) take(uint8_t(c));
  return hash;
}

// Constructors draw from libtorch's generator, which all threads of a process share.
std::mutex& generator_mutex() {
  static std::mutex mutex;
  return mutex;
}

}  // namespace

torch::ScalarType main_dtype(torch::ScalarType dtype) {
  return at::isFloatingType(dtype) && at::elementSize(dtype) < 4 ? torch::kFloat32 : dtype;
}

PartModule make_part(const System& system, const std::string& prefix, const MakeModule& make, uint64_t seed,
                     const Precision& precision) {
  PartModule part{prefix, nullptr};
  {
    std::lock_guard lock(generator_mutex());
    auto generator = at::globalContext().defaultGenerator(torch::kCPU);
    auto before = generator.get_state();
    generator.set_current_seed(hash_of(seed, prefix));
    part.module = make();
    generator.set_state(before);
  }
  if (!part.module) throw InvalidInput(concat("[system] the maker of '", prefix, "' gave no module"));
  part.module->to(precision.device, precision.dtype);
  if (system.initialise()) system.initialise()(*part.module, seed, prefix);
  return part;
}

bool matches(const std::string& pattern, const std::string& name) {
  return fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
}

bool Trained::operator()(const std::string& name) const {
  auto any_of = [&](const auto& patterns) {
    return std::any_of(patterns.begin(), patterns.end(),
                       [&](const auto& pattern) { return matches(pattern, name); });
  };
  return !any_of(freeze) || any_of(train);
}

}  // namespace bigmac
