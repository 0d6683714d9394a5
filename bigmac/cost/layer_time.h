#pragma once

#include <string_view>

#include "bigmac/cost/hardware.h"
#include "bigmac/cost/model.h"
#include "bigmac/cost/parallel.h"

namespace bigmac::cost {

// How a module is trained: what its costs and bytes depend on beside its layers. Recompute is that of layers
// with attention, as in Megatron Core: embeddings, mergers and heads keep what they need.
struct Training {
  Recompute recompute = Recompute::none;
  bool frozen = false;          // no weight gradient, nothing kept for it, no gradients or optimizer states
  bool passes_gradient = true;  // something trained lies before it, so its input gradient is needed
  double expert_imbalance = 1;  // rows of the busiest GPU's experts over the mean, at least 1
};

// InvalidInput naming the figure: expert_imbalance below 1; count or tokens not above 0, text below 0, merge
// below 1; NaN and infinite ones.
void check(const Training& training);
void check(const Sequences& sequences);

// Seconds of one operator on one GPU of its tensor group. `input` holds what is computed again first.
struct LayerTime {
  double forward = 0;
  double input = 0;
  double weight = 0;
  double again = 0;  // of `input`: recomputed forward
  double links = 0;  // of forward + input + weight: waiting for tensor and expert parallel traffic

  double backward() const { return input + weight; }
  LayerTime& operator+=(const LayerTime& other);
};

// Each part takes the longer of its FLOPs at `peak` and its bytes at `memory_bandwidth`, each by its
// efficiency; bytes are weights (once; of experts those the GPU holds; of a table the rows looked up), inputs
// and outputs, in bf16. Gradients: the input's and the weights' of a linear part move as much as its forward,
// attention's twice as much (its output, and the gradients of all), the input's of all else once more its
// inputs. Tensor parallelism divides parts that are cut, sequence parallelism the tokens of the others. Rows
// of experts are top_k of the tokens over the tensor group, times the imbalance.
//
// Waits for traffic, which is not hidden behind computing, over the links' efficiency (link_time.h):
//   - tensor, with sequence parallelism: rows gathered before parts cut by columns, once where several read
//   the same; scattered behind each part cut by rows. The backward does the reverse
//   - tensor, without: an all-reduce behind each part cut by rows; in the backward one where rows would have
//   been gathered
//   - expert: top_k copies of each of the GPU's rows, times the imbalance, to the experts, of which
//   (expert - 1) / expert go to other GPUs, and back; once more in the backward
//
// Frozen: no weight part, and no input part either where nothing trained lies before. Recompute: full adds
// the forward and its traffic, selective the parts with a tensor that is not kept. More tokens never take
// less; a larger tensor group never computes longer, a larger expert group never either. Throws InvalidInput
// as the checks of its arguments do; whether sizes divide is check_fits' to say.
LayerTime layer_time(const Layer& layer, const Sequences& sequences, const Parallel& parallel,
                     const Training& training, const Hardware& hardware, const Efficiency& efficiency);

}  // namespace bigmac::cost
