#pragma once

#include "bigmac/cost/layer_time.h"

namespace bigmac::cost {

// Bytes of activations of one layer on one GPU.
struct LayerBytes {
  double kept = 0;     // from a forward to its backward
  double working = 0;  // more while the backward runs: what full or selective recompute brings back

  LayerBytes& operator+=(const LayerBytes& other);
};
// kept: without recompute every Saved of its parts; selective: without those it names; full: the layer's
// input rows alone, `hidden` wide in bf16 (both streams of a double-stream block), where that is less. Cut
// tensors are divided by tensor parallelism, the others by sequence parallelism (those of one row a sequence
// are not); full recompute's input rows too. Rows of experts are top_k times the tokens over the tensor
// group, times the imbalance. Frozen: without what only weight gradients need; nothing at all where no
// gradient passes.
//
// For a GPT layer of h hidden and a heads on b sequences of s tokens (Korthikanti et al. 2022, arXiv
// 2205.05198) this is s b h (34 + 5 a s / h); with tensor parallelism t s b h (10 + 24 / t + 5 a s / (h t)),
// with sequence parallelism beside it s b h / t (34 + 5 a s / h); selective 34 s b h / t, full 2 s b h (/ t
// with sequence parallelism).
// Throws InvalidInput as layer_time does, and for a `hidden` below 1.
LayerBytes layer_bytes(const Layer& layer, int64_t hidden, const Sequences& sequences,
                       const Parallel& parallel, const Training& training);

// Bytes an element of what training keeps of a parameter, on one GPU.
struct Precision {
  double parameter = 2;   // bf16
  double gradient = 4;    // accumulated in fp32
  double optimizer = 12;  // fp32 copy and two moments (Adam)

  bool operator==(const Precision&) const = default;
};
// InvalidInput: parameter not above 0, the others below 0, NaN, infinite.
void check(const Precision& precision);

// Parameters that one GPU holds of a layer. Tensor parallelism divides those of linear parts and tables that
// are cut (not the bias of parts cut by rows), expert parallelism the experts; what is tied counts where
// there is more than one pipeline stage, since the last stage then holds its own copy.
struct HeldParameters {
  double dense = 0;
  double experts = 0;

  double all() const { return dense + experts; }
  HeldParameters& operator+=(const HeldParameters& other);
};
HeldParameters held_parameters(const Layer& layer, const Parallel& parallel);

// Bytes of what a GPU holds of layers from step to step.
struct StateBytes {
  double parameters = 0;
  double gradients = 0;
  double optimizer = 0;

  double all() const { return parameters + gradients + optimizer; }
  StateBytes& operator+=(const StateBytes& other);
};
// Of held_parameters, at the precision. Optimizer states are divided over the data-parallel replicas
// (experts: expert_data) where `shard_optimizer`; a frozen layer has parameters only.
StateBytes state_bytes(const Layer& layer, const Parallel& parallel, const Training& training,
                       const Precision& precision, bool shard_optimizer);

}  // namespace bigmac::cost
