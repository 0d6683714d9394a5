#include <iterator>
#include <set>

#include "bigmac/common/names.h"
#include "bigmac/train/optimizer.h"
#include "bigmac/train/reducer.h"
#include "bigmac/train/trainer.h"

namespace bigmac::train {

void Trainer::set_parameters(const NamedTensors& given) {
  const auto& backbone = system_.backbone();
  NamedTensors named;
  std::set<std::string> aliases;
  for (const auto& tie : backbone.ties) aliases.insert(backbone.name + "." + tie.parameter);
  for (const auto& [name, tensor] : given)
    if (!aliases.contains(name)) named.emplace(name, tensor);
  auto used = torch::zeros({int64_t(named.size())}, torch::kInt64);
  auto take = [&](NamedTensors held) {
    for (auto& [name, tensor] : held) {
      auto found = named.find(name);
      if (found == named.end()) continue;
      if (found->second.sizes() != tensor.sizes())
        throw InvalidInput(concat("[train] '", name, "' is given as ", bigmac::describe(found->second),
                                  ", the system has it as ", bigmac::describe(tensor)));
      tensor = found->second;
      used[std::distance(named.begin(), found)] = 1;
    }
    return held;
  };
  torch::NoGradGuard no_grad;
  for (const auto& unit : units_) {
    unit->set_values(take(unit->values()));
    unit->set_frozen_values(take(unit->frozen_values()));
  }
  everyone_->start_all_reduce(used)->wait();
  std::vector<std::string> own;
  for (const auto& parameter : model_->parameters()) own.push_back(parameter.name);
  for (auto item = named.begin(); item != named.end(); ++item)
    if (used[std::distance(named.begin(), item)].item<int64_t>() == 0)
      throw InvalidInput("[train] " + unknown_name("parameter", item->first, own));
}

std::vector<double> Trainer::part_seconds() {
  auto sums = torch::tensor(model_->part_seconds(), torch::kFloat64);
  everyone_->start_all_reduce(sums)->wait();
  return {sums.data_ptr<double>(), sums.data_ptr<double>() + sums.numel()};
}

}  // namespace bigmac::train
