#include "bigmac/cost/count.h"

namespace bigmac::cost {
namespace {

// Of one expert, where there are several.
int64_t weights_of(const Part& part) {
  switch (part.kind) {
    case PartKind::linear:
    case PartKind::embedding:
      return part.in * part.out + (part.bias ? part.out : 0);
    case PartKind::norm:
      return part.out + (part.bias ? part.out : 0);
    case PartKind::attention:
    case PartKind::elementwise:
      return 0;
  }
  return 0;
}

}  // namespace

Parameters& Parameters::operator+=(const Parameters& other) {
  all += other.all;
  experts += other.experts;
  active += other.active;
  return *this;
}

Parameters parameters(const Part& part) {
  if (part.tied) return {};
  int64_t weights = weights_of(part);
  if (part.experts == 0) return {weights, 0, weights};
  return {weights * part.experts, weights * part.experts, weights * part.top_k};
}

Parameters parameters(const Layer& layer) {
  Parameters sum;
  for (const auto& part : layer.parts) sum += parameters(part);
  return sum;
}

Parameters parameters(const Model& model) {
  Parameters sum;
  for (const auto& layer : model.layers) sum += parameters(layer);
  return sum;
}

Flops& Flops::operator+=(const Flops& other) {
  forward += other.forward;
  input += other.input;
  weight += other.weight;
  return *this;
}

Flops flops(const Part& part, const Sequences& sequences) {
  double rows = rows_of(part.rows, sequences);
  if (part.kind == PartKind::attention) {
    double forward = 4 * double(part.heads * part.head_dim) * keys_of(part, sequences) * rows;
    return {forward, 2.5 * forward, 0};
  }
  if (part.kind != PartKind::linear) return {};
  double forward = 2 * double(part.in) * double(part.out) * double(passes_of(part)) * rows;
  return {forward, part.of_data ? 0 : forward, forward};
}

Flops flops(const Layer& layer, const Sequences& sequences) {
  Flops sum;
  for (const auto& part : layer.parts) sum += flops(part, sequences);
  return sum;
}

Flops flops(const Model& model, Sequences sequences) {
  sequences.merge = model.merge;
  Flops sum;
  for (const auto& layer : model.layers) sum += flops(layer, sequences);
  return sum;
}

}  // namespace bigmac::cost
