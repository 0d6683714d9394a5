#include "bigmac/schedule/costs.h"

#include <algorithm>
#include <cmath>

#include "bigmac/common/error.h"

namespace bigmac {
namespace {

double checked(const char* what, double value) {
  if (!std::isfinite(value) || value < 0)
    throw InvalidInput(concat("[costs] ", what, " must be a finite number of at least 0, got ", value));
  return value;
}

std::vector<double> by_stage(const char* what, const std::vector<double>& values, int64_t stages) {
  if (values.size() != 1 && int64_t(values.size()) != stages)
    throw InvalidInput(concat("[costs] ", what, " needs 1 value or one for each of ", stages, " stages, got ",
                              values.size()));
  for (double value : values) checked(what, value);
  return values.size() == 1 ? std::vector<double>(stages, values[0]) : values;
}

}  // namespace

Durations::Durations(const Step& step, const Costs& costs)
    : ranks_(step.ranks),
      backbone_{by_stage("backbone forward", costs.forward, step.stages()),
                by_stage("backbone backward", costs.backward, step.stages())},
      encoder_{checked("encoder forward", costs.encoder_forward),
               checked("encoder backward", costs.encoder_backward)},
      generator_(checked("generator forward", costs.generator_forward) +
                 checked("generator backward", costs.generator_backward)),
      latency_(checked("latency", costs.latency)),
      longest_backbone_(std::max(*std::max_element(backbone_[0].begin(), backbone_[0].end()),
                                 *std::max_element(backbone_[1].begin(), backbone_[1].end()))) {}

}  // namespace bigmac
