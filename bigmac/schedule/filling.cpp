#include "bigmac/schedule/filling.h"

#include <algorithm>

#include "bigmac/schedule/base.h"
#include "bigmac/schedule/spread.h"

namespace bigmac {

Filling::Filling(const Step& step, const Costs& nominal, const std::vector<int64_t>& warmup_units)
    : backbone(base_table(step, step.has(Module::generator) ? Turn::behind_generator : Turn::at_once),
               nominal),
      singles(spread_singly(step)),
      dependencies(step, singles),
      durations(step, singles, nominal),
      units(unit_sizes(step, spread(step))) {
  for (size_t n = 0; n < step.modules.size(); ++n) {
    limits.push_back(units[n] * double(warmup_units[n] + 1));
    if (step.modules[n].kind == Module::encoder)
      (step.modules[n].trained ? capacity : waiting_capacity) += double((warmup_units[n] + 1) * step.ranks);
  }
  double work = 0, longest_forward = 0;
  for (double of_rank : backbone.work) work += of_rank;
  for (const auto& share : singles.list) {
    const auto& module = step.modules[share.module];
    const auto& item = module.items[singles.items_of(share).front()];
    auto number = uint32_t(items.size());
    bool encoder = module.kind == Module::encoder;
    double first = durations(0, encoder ? encoder_forward(number) : generate(number));
    double second = encoder ? durations(0, encoder_backward(number)) : 0;
    items.push_back(
        {item.microbatch, share.module, share.unit, encoder, module.trained, item.size, first, second});
    longest_backward = std::max(longest_backward, second);
    if (encoder) longest_forward = std::max(longest_forward, first);
    work += first + second;
  }
  if (longest_backward == 0) longest_backward = longest_forward;
  mean_work = work / double(step.ranks);
  shortest = std::max(mean_work, backbone.length);
}

}  // namespace bigmac
