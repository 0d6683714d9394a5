#pragma once

#include <vector>

#include "bigmac/cost/model.h"

namespace bigmac::cost {

// Vision transformer over patches, with rotary positions, whose merge * merge neighbours become one token.
struct VisionShape {
  int64_t layers = 0, hidden = 0, heads = 0, ffn = 0;
  int64_t channels = 3, patch = 0, frames = 1;  // a patch is channels * frames * patch * patch values
  int64_t merge = 2;                            // of an edge
  int64_t out = 0;                              // width after the merger

  bool layer_norm = false;  // LayerNorm with bias instead of RMSNorm
  bool gated = true;        // gated MLP instead of GELU
  bool bias = false;        // of attention and MLP
  bool patch_bias = false;
  bool patch_norm = false;  // RMSNorm behind the patch embedding
  bool last_norm = false;   // RMSNorm behind the last block
  bool merger_layer_norm = false;
  int64_t positions = 0;  // entries of a learned position table, which four look-ups interpolate

  int64_t window = 0;            // patches that a patch sees in layers with windows
  std::vector<bool> windowed{};  // by layer; empty: none
  std::vector<bool> taps{};      // by layer, whether a deepstack merger follows it; empty: none
};
// Layers: "patch embedding"; "block" or "window block", each with its deepstack merger; "merger".
Model vision_model(const VisionShape& shape);

}  // namespace bigmac::cost
