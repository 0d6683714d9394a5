#include "bigmac/system/ties.h"

#include <set>

#include "bigmac/common/error.h"
#include "bigmac/common/names.h"

namespace bigmac {
namespace {

// The part of the backbone that a parameter's name ("head.weight") starts with.
int64_t part_of(const BackboneDeclaration& backbone, const std::string& parameter) {
  auto all = backbone.all();
  for (size_t p = 0; p < all.size(); ++p)
    if (parameter.starts_with(all[p]->name + ".")) return int64_t(p);
  throw InvalidInput(concat("[system] tie: no part of '", backbone.name, "' holds '", parameter, "'"));
}

torch::Tensor parameter_of(const BackboneDeclaration& backbone, const PartModule& part,
                           const std::string& parameter) {
  auto local = (backbone.name + "." + parameter).substr(part.prefix.size());
  auto parameters = part.module->named_parameters();
  if (const auto* found = parameters.find(local)) return *found;
  throw InvalidInput(
      concat("[system] tie: '", part.prefix, "*' has ", unknown_name("parameter", local, parameters.keys())));
}

}  // namespace

void tie_parameters(const System& system, const std::map<int64_t, PartModule>& parts, uint64_t seed,
                    const Precision& precision) {
  const auto& backbone = system.backbone();
  auto all = backbone.all();
  std::set<std::string> tied, targets;
  for (const auto& tie : backbone.ties) {
    if (!tied.insert(tie.parameter).second)
      throw InvalidInput(concat("[system] '", tie.parameter, "' is tied twice"));
    targets.insert(tie.to);
  }
  for (const auto& tie : backbone.ties) {
    if (tied.contains(tie.to))
      throw InvalidInput(concat("[system] '", tie.parameter, "' is tied to '", tie.to,
                                "', which is tied itself; tie both to one that is not"));
    auto here = parts.find(part_of(backbone, tie.parameter));
    if (here == parts.end()) continue;
    auto parameter = parameter_of(backbone, here->second, tie.parameter);
    int64_t number = part_of(backbone, tie.to);
    auto found = parts.find(number);
    const auto* declaration = all[size_t(number)];
    auto target = found != parts.end()
                      ? parameter_of(backbone, found->second, tie.to)
                      : parameter_of(backbone,
                                     make_part(system, backbone.name + "." + declaration->name + ".",
                                               declaration->make, seed, precision),
                                     tie.to);
    if (parameter.sizes() != target.sizes())
      throw InvalidInput(concat("[system] '", tie.parameter, "' is ", describe(parameter),
                                " and cannot be tied to '", tie.to, "', which is ", describe(target)));
    parameter.set_data(target.detach());
  }
}

std::map<std::string, std::vector<int64_t>> tied_parts(const BackboneDeclaration& backbone) {
  std::map<std::string, std::set<int64_t>> sets;
  for (const auto& tie : backbone.ties) {
    auto& parts = sets[backbone.name + "." + tie.to];
    parts.insert(part_of(backbone, tie.to));
    parts.insert(part_of(backbone, tie.parameter));
  }
  std::map<std::string, std::vector<int64_t>> lists;
  for (const auto& [name, parts] : sets) lists[name].assign(parts.begin(), parts.end());
  return lists;
}

}  // namespace bigmac
