#include "bigmac/train/flat.h"

#include "bigmac/common/error.h"

namespace bigmac::train {
namespace {

int64_t elements_of(const Parameter& parameter) {
  return parameter.leaves[0].numel();
}

// Calls visit(parameter, its view of the buffer).
template <class Visit>
void for_each_view(const torch::Tensor& flat, const std::vector<Parameter>& parameters, Visit&& visit) {
  int64_t offset = 0;
  for (const auto& parameter : parameters) {
    const auto& leaf = parameter.leaves[0];
    visit(parameter, flat.narrow(0, offset, leaf.numel()).view(leaf.sizes()));
    offset += leaf.numel();
  }
}

}  // namespace

int64_t shard_elements(const std::vector<Parameter>& parameters, int members) {
  int64_t count = 0;
  for (const auto& parameter : parameters) count += elements_of(parameter);
  return (count + members - 1) / members;
}

torch::Tensor flatten(const std::vector<Parameter>& parameters, int members, const std::string& unit) {
  const auto& first = parameters.at(0).leaves[0];
  for (const auto& parameter : parameters)
    if (parameter.leaves[0].scalar_type() != first.scalar_type())
      throw InvalidInput(concat("[train] '", parameter.name, "' is ", parameter.leaves[0].scalar_type(),
                                ", others of ", unit, " are ", first.scalar_type()));
  torch::NoGradGuard no_grad;
  auto flat =
      torch::zeros({shard_elements(parameters, members) * members}, first.options().requires_grad(false));
  for_each_view(flat, parameters, [](const Parameter& parameter, const torch::Tensor& view) {
    view.copy_(parameter.leaves[0]);
    for (const auto& leaf : parameter.leaves) leaf.set_data(view);
  });
  return flat;
}

std::map<std::string, torch::Tensor> named_views(const torch::Tensor& flat,
                                                 const std::vector<Parameter>& parameters) {
  std::map<std::string, torch::Tensor> named;
  for_each_view(flat, parameters,
                [&](const Parameter& parameter, const torch::Tensor& view) { named[parameter.name] = view; });
  return named;
}

void copy_named(const std::map<std::string, torch::Tensor>& named, const std::vector<Parameter>& parameters,
                const torch::Tensor& flat) {
  torch::NoGradGuard no_grad;
  for_each_view(flat, parameters, [&](const Parameter& parameter, const torch::Tensor& view) {
    view.copy_(named.at(parameter.name));
  });
}

}  // namespace bigmac::train
