#include <algorithm>

#include "bigmac/common/error.h"
#include "bigmac/system/system_model.h"

namespace bigmac {
namespace {

std::string prefix_of(const BackboneDeclaration& backbone, const LayerDeclaration& layer) {
  return backbone.name + "." + layer.name + ".";
}

void add_buffers(const PartModule& part, std::map<std::string, torch::Tensor>& buffers) {
  for (const auto& item : part.module->named_buffers())
    buffers.emplace(part.prefix + item.key(), item.value());
}

}  // namespace

void SystemModel::make_parts() {
  const auto& precision = options_.precision;
  for (const auto& module : system_.modules())
    modules_.push_back(make_part(system_, module.name + ".", module.make, options_.seed, precision));
  auto all = system_.backbone().all();
  for (int64_t p = 0; p < int64_t(all.size()); ++p)
    if (placed_.rank_of(cut_.stage_of(p)) == rank_)
      parts_.emplace(p, make_part(system_, prefix_of(system_.backbone(), *all[size_t(p)]),
                                  all[size_t(p)]->make, options_.seed, precision));
}

// Those without a tie; the others go to tied_parameters_.
std::vector<Parameter> SystemModel::list_parameters(const PartModule& part,
                                                    std::map<const void*, std::string>& seen) {
  std::vector<Parameter> parameters;
  for (const auto& item : part.module->named_parameters()) {
    std::string name = part.prefix + item.key();
    auto [place, added] = seen.emplace(item.value().unsafeGetTensorImpl(), name);
    if (!added && place->second.starts_with(part.prefix)) continue;  // one parameter, by its first name
    if (!added)
      throw InvalidInput(concat("[system] '", place->second, "' and '", name,
                                "' are one tensor, which stages cannot share; declare it: tie(...)"));
    auto tie = ties_.find(name);
    auto global = tie == ties_.end() ? name : tie->second;
    item.value().requires_grad_(item.value().requires_grad() && options_.trained(global));
    bool tied = std::any_of(ties_.begin(), ties_.end(), [&](const auto& t) { return t.second == global; });
    if (!tied) {
      parameters.push_back({global, {item.value()}});
      continue;
    }
    auto found = std::find_if(tied_parameters_.begin(), tied_parameters_.end(),
                              [&](const auto& parameter) { return parameter.name == global; });
    if (found == tied_parameters_.end())
      tied_parameters_.push_back({global, {item.value()}});
    else
      found->leaves.push_back(item.value());
  }
  return parameters;
}

std::vector<Parameter> SystemModel::parameters() const {
  std::vector<Parameter> all;
  for (const auto* lists : {&module_parameters_, &chunk_parameters_})
    for (const auto& list : *lists) all.insert(all.end(), list.begin(), list.end());
  all.insert(all.end(), tied_parameters_.begin(), tied_parameters_.end());
  return all;
}

std::map<std::string, torch::Tensor> SystemModel::buffers_of_module(int n) const {
  std::map<std::string, torch::Tensor> buffers;
  add_buffers(modules_.at(size_t(n)), buffers);
  return buffers;
}

std::map<std::string, torch::Tensor> SystemModel::buffers_of_chunk(int chunk) const {
  std::map<std::string, torch::Tensor> buffers;
  int64_t stage = placed_.stage(rank_, chunk);
  for (int64_t p = cut_.first[size_t(stage)]; p < cut_.first[size_t(stage) + 1]; ++p)
    add_buffers(parts_.at(p), buffers);
  return buffers;
}

bool SystemModel::is_trained(int module) const {
  const auto& list = module_parameters_.at(size_t(module));
  return std::any_of(list.begin(), list.end(), [](const auto& parameter) { return parameter.trained(); });
}

}  // namespace bigmac
