#include "bigmac/timeline/mean_costs.h"

namespace bigmac {
namespace {

struct Mean {
  double sum = 0;
  int64_t count = 0;

  void add(double value) {
    sum += value;
    ++count;
  }
  double value() const { return count == 0 ? 0 : sum / double(count); }
};

}  // namespace

Costs mean_costs(const Step& step, const Timeline& timeline) {
  std::vector<Mean> forward(step.stages()), backward(step.stages());
  Mean encoder_forward, encoder_backward, generator;
  for (int64_t rank = 0; rank < int64_t(timeline.rows.size()); ++rank)
    for (const auto& [op, start, end] : timeline.rows[rank].operators) {
      bool is_forward = op.phase == Phase::forward;
      if (op.module == Module::backbone)
        (is_forward ? forward : backward).at(op.chunk * step.ranks + rank).add(end - start);
      else if (op.module == Module::encoder)
        (is_forward ? encoder_forward : encoder_backward).add(end - start);
      else
        generator.add(end - start);
    }
  Costs costs{.forward = {},
              .backward = {},
              .encoder_forward = encoder_forward.value(),
              .encoder_backward = encoder_backward.value(),
              .generator_forward = generator.value()};
  for (const auto& mean : forward) costs.forward.push_back(mean.value());
  for (const auto& mean : backward) costs.backward.push_back(mean.value());
  return costs;
}

}  // namespace bigmac
