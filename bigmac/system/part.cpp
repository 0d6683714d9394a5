#include "bigmac/system/part.h"

#include <fnmatch.h>

#include <algorithm>

#include "bigmac/common/error.h"
#include "bigmac/system/random.h"

namespace bigmac {

torch::ScalarType main_dtype(torch::ScalarType dtype) {
  return at::isFloatingType(dtype) && at::elementSize(dtype) < 4 ? torch::kFloat32 : dtype;
}

PartModule make_part(const System& system, const std::string& prefix, const MakeModule& make, uint64_t seed,
                     const Precision& precision) {
  SeededGenerators seeded(precision.device, hash_of(seed, prefix));
  PartModule part{prefix, make()};
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
