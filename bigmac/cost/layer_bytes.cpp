#include "bigmac/cost/layer_bytes.h"

#include <algorithm>
#include <cmath>

#include "bigmac/common/error.h"
#include "bigmac/cost/count.h"
#include "bigmac/cost/shares.h"

namespace bigmac::cost {
namespace {

double bytes_of(const Saved& saved, const Part& part, const Sequences& sequences, const Parallel& parallel,
                const Training& training) {
  double elements = saved.width * rows_of(part.rows, sequences);
  if (saved.per_key) elements *= keys_of(part, sequences);
  double tensor = double(parallel.tensor);
  double share = saved.cut ? 1 / tensor : sequence_share(part.rows, parallel);
  if (part.experts > 0) {
    elements *= double(part.top_k) * training.expert_imbalance;
    share = 1 / tensor;
  }
  return elements * saved.bytes * share;
}

double input_bytes(const Layer& layer, int64_t hidden, const Sequences& sequences, const Parallel& parallel) {
  bool both = std::any_of(layer.parts.begin(), layer.parts.end(), [](const Part& part) {
    return part.rows == Rows::text || part.rows == Rows::joint;
  });
  auto rows = both ? Rows::joint : Rows::tokens;
  return 2 * double(hidden) * rows_of(rows, sequences) * sequence_share(rows, parallel);
}

void check_bytes(std::string_view field, double value, bool zero) {
  if (!(value >= 0) || std::isinf(value) || (!zero && value == 0))
    throw InvalidInput(concat("[precision] ", field, " must be ", zero ? "at least" : "above",
                              " 0 bytes and finite, got ", value));
}

// A tied part's parameters are those of its like that is not tied.
Parameters untied(const Part& part) {
  if (!part.tied) return parameters(part);
  Part own = part;
  own.tied = false;
  return parameters(own);
}

double dense_held(const Part& part, const Parallel& parallel) {
  auto all = double(untied(part).all);
  bool divided = part.cut != Cut::none && (part.kind == PartKind::linear || part.kind == PartKind::embedding);
  if (!divided) return all;
  double whole = part.cut == Cut::rows && part.bias ? double(part.out) : 0;
  return (all - whole) / double(parallel.tensor) + whole;
}

}  // namespace

LayerBytes& LayerBytes::operator+=(const LayerBytes& other) {
  kept += other.kept;
  working += other.working;
  return *this;
}

LayerBytes layer_bytes(const Layer& layer, int64_t hidden, const Sequences& sequences,
                       const Parallel& parallel, const Training& training) {
  if (hidden < 1) throw InvalidInput(concat("[layer] hidden must be at least 1, got ", hidden));
  check(sequences);
  check(parallel);
  check(training);
  if (training.frozen && !training.passes_gradient) return {};
  double all = 0, selective = 0;
  for (const auto& part : layer.parts)
    for (const auto& saved : part.saved) {
      if (saved.for_weights && training.frozen) continue;
      double bytes = bytes_of(saved, part, sequences, parallel, training);
      all += bytes;
      if (!saved.selective) selective += bytes;
    }
  if (training.recompute == Recompute::none || !has_attention(layer)) return {all, 0};
  double kept = training.recompute == Recompute::selective
                    ? selective
                    : std::min(all, input_bytes(layer, hidden, sequences, parallel));
  return {kept, all - kept};
}

void check(const Precision& precision) {
  check_bytes("parameter", precision.parameter, false);
  check_bytes("gradient", precision.gradient, true);
  check_bytes("optimizer", precision.optimizer, true);
}

HeldParameters& HeldParameters::operator+=(const HeldParameters& other) {
  dense += other.dense;
  experts += other.experts;
  return *this;
}

HeldParameters held_parameters(const Layer& layer, const Parallel& parallel) {
  check(parallel);
  HeldParameters held;
  for (const auto& part : layer.parts) {
    if (part.tied && parallel.pipeline == 1) continue;
    if (part.experts > 0)
      held.experts += double(untied(part).all) / double(parallel.expert);
    else
      held.dense += dense_held(part, parallel);
  }
  return held;
}

StateBytes& StateBytes::operator+=(const StateBytes& other) {
  parameters += other.parameters;
  gradients += other.gradients;
  optimizer += other.optimizer;
  return *this;
}

StateBytes state_bytes(const Layer& layer, const Parallel& parallel, const Training& training,
                       const Precision& precision, bool shard_optimizer) {
  check(precision);
  auto held = held_parameters(layer, parallel);
  StateBytes state;
  state.parameters = held.all() * precision.parameter;
  if (training.frozen) return state;
  state.gradients = held.all() * precision.gradient;
  double dense = shard_optimizer ? held.dense / double(parallel.data) : held.dense;
  double experts = shard_optimizer ? held.experts / double(parallel.expert_data()) : held.experts;
  state.optimizer = (dense + experts) * precision.optimizer;
  return state;
}

}  // namespace bigmac::cost
