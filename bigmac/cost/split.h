#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "bigmac/formats/layout.h"

namespace bigmac::cost {

// How many of a model's layers each stage holds, in order; all layers once. Stage s is chunk s / P of rank s
// mod P in a loop.
using Split = std::vector<int64_t>;

// What a split is judged by. `times` and `bytes` are by layer (embedding, head and whatever else stands in
// the list of layers included); `extra` is by stage, what the stage does beside its layers (an encoder in the
// first). All are at least 0 and finite; limits may be infinite.
struct SplitCosts {
  std::vector<double> times;
  std::vector<double> extra{};        // empty: nothing
  std::vector<double> bytes{};        // by layer, empty: no limits
  std::vector<double> most_bytes{};   // by stage, what fits; one value stands for all; empty: no limits
  std::vector<double> extra_bytes{};  // by stage, held beside the layers
  bool empty_stages = false;          // a stage may hold no layer
  // Of stage, begin, end: what a stage holds with layers begin..end-1, all of it, where that is not the sum
  // of `bytes` and `extra_bytes`. More layers hold no less.
  std::function<double(int64_t, int64_t, int64_t)> held{};
};

// Contiguous layers for each stage, so that the slowest stage is as fast as can be; of those the one whose
// stages are most even (least sum of squares), and of those the one with the fewest layers in the first
// stages, which hold the most microbatches. Exact, but for times that differ by less than 1e-9 of the slowest
// stage's; O(layers^2 stages), usually far less. Throws InvalidInput:
//   - no layers, no stages, a list of a wrong length, a figure below 0, NaN or infinite (its place named)
//   - "[split] 8 stages for 7 layers": more stages than layers, unless they may be empty
//   - "[split] no split keeps to the limits: ...", naming a stage, what it would have to hold, and its limit
Split balanced_split(const SplitCosts& costs, int64_t stages);

// "[6,11,11,11,11,11,11,8]" or "6,11,...". With chunks also a list for each, as in MindSpeed-MM:
// "[[0,0,0,1],[4,4,4,4],[4,4,4,3]]" is 12 stages on 4 ranks. Throws InvalidInput for anything else as
// "[split] position 3 ('x'): ...", and as check_split does.
Split parse_split(std::string_view text, int64_t layers, int64_t stages);

// InvalidInput for a stage of fewer than 0 layers, and naming both numbers: "[split] has 7 stages, the
// pipeline has 8"; "[split] holds 79 layers, the model has 80".
void check_split(const Split& split, int64_t layers, int64_t stages);

// The split of a Megatron layout for a model whose first layer is the embedding and whose last is the head,
// with `mtp_layers` between its decoder layers and the head. Throws InvalidInput as check_layout does.
Split split_of(const Layout& layout, int64_t decoder_layers, int64_t mtp_layers = 0);

}  // namespace bigmac::cost
