#include <set>

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
  int64_t used = 0;
  auto take = [&](NamedTensors held, bool first) {
    for (auto& [name, tensor] : held) {
      auto found = named.find(name);
      if (found == named.end()) continue;
      if (found->second.sizes() != tensor.sizes())
        throw InvalidInput(concat("[train] '", name, "' is given as ", bigmac::describe(found->second),
                                  ", the system has it as ", bigmac::describe(tensor)));
      tensor = found->second;
      used += first;
    }
    return held;
  };
  torch::NoGradGuard no_grad;
  for (const auto& unit : units_) {
    unit->set_values(take(unit->values(), unit->is_first()));
    unit->set_frozen_values(take(unit->frozen_values(), unit->is_first()));
  }
  auto all = torch::full({1}, used, torch::kInt64);
  everyone_->start_all_reduce(all)->wait();
  if (all.item<int64_t>() != int64_t(named.size()))
    throw InvalidInput(concat("[train] ", named.size(), " parameters are given, of which the system has ",
                              all.item<int64_t>(), "; '", named.begin()->first, "' is the first"));
}

std::vector<double> Trainer::part_seconds() {
  auto sums = torch::tensor(model_->part_seconds(), torch::kFloat64);
  everyone_->start_all_reduce(sums)->wait();
  return {sums.data_ptr<double>(), sums.data_ptr<double>() + sums.numel()};
}

}  // namespace bigmac::train
