#include "bigmac/cost/vision_model.h"

#include <algorithm>
#include <utility>

#include "bigmac/cost/blocks.h"
#include "bigmac/cost/parts.h"

namespace bigmac::cost {
namespace {

Layer patch_embedding(const VisionShape& shape) {
  int64_t values = shape.channels * shape.frames * shape.patch * shape.patch;
  Layer layer{"patch embedding", {}};
  Part patches = linear("patch_embed.proj", values, shape.hidden, shape.patch_bias, Cut::none);
  patches.of_data = true;
  patches.saved = {for_weights(kept("patches", values))};
  layer.parts.push_back(patches);
  if (shape.patch_norm) {
    layer.parts.push_back(norm("patch_embed.norm", shape.hidden, false));
    layer.parts.back().saved = {kept("input", shape.hidden)};
  }
  if (shape.positions > 0) {
    layer.parts.push_back(embedding("pos_embed", shape.positions, shape.hidden, Cut::none));
    layer.parts.push_back(elementwise("pos_embed.interpolate", 5 * shape.hidden, shape.hidden));
  }
  return layer;
}

// Merges rows of `merge * merge` neighbours; its norm stands before the merging, or with `after` behind it.
void add_merger(std::vector<Part>& parts, const VisionShape& shape, const std::string& prefix, bool after,
                bool keeps_input) {
  int64_t width = shape.hidden * shape.merge * shape.merge;
  Part first =
      block_norm(prefix + "norm", after ? width : shape.hidden, shape.merger_layer_norm, keeps_input);
  if (after) first.rows = Rows::merged;
  parts.push_back(std::move(first));
  MlpShape mlp;
  mlp.in = mlp.ffn = width;
  mlp.out = shape.out;
  mlp.bias = true;
  mlp.rows = Rows::merged;
  mlp.prefix = prefix;
  mlp.up = "linear_fc1";
  mlp.down = "linear_fc2";
  add_mlp(parts, mlp);
}

Layer block(const VisionShape& shape, bool windowed, bool tapped) {
  Layer layer{windowed ? "window block" : "block", {}};
  auto& parts = layer.parts;
  parts.push_back(block_norm("norm1", shape.hidden, shape.layer_norm, true));
  AttentionShape attention;
  attention.hidden = shape.hidden;
  attention.heads = attention.kv_heads = shape.heads;
  attention.head_dim = shape.hidden / shape.heads;
  attention.q_bias = attention.o_bias = shape.bias;
  attention.fused = true;
  attention.window = windowed ? shape.window : 0;
  attention.prefix = "attn.";
  attention.o = "proj";
  add_attention(parts, attention);
  parts.push_back(residual("attn.residual", shape.hidden, true));
  parts.push_back(block_norm("norm2", shape.hidden, shape.layer_norm, false));
  MlpShape mlp;
  mlp.in = mlp.out = shape.hidden;
  mlp.ffn = shape.ffn;
  mlp.bias = shape.bias;
  mlp.prefix = "mlp.";
  if (shape.gated) {
    add_gated_mlp(parts, mlp);
  } else {
    mlp.up = "linear_fc1";
    mlp.down = "linear_fc2";
    add_mlp(parts, mlp);
  }
  // A deepstack merger reads what the next layer's norm keeps anyway.
  parts.push_back(residual("mlp.residual", shape.hidden, false));
  if (tapped) add_merger(parts, shape, "deepstack_merger.", true, false);
  return layer;
}

Layer merger(const VisionShape& shape) {
  Layer layer{"merger", {}};
  if (shape.last_norm) {
    layer.parts.push_back(norm("post_trunk_norm", shape.hidden, false));
    layer.parts.back().saved = {kept("input", shape.hidden), kept("output", shape.hidden)};
  }
  add_merger(layer.parts, shape, "merger.", false, !shape.last_norm);
  return layer;
}

}  // namespace

Model vision_model(const VisionShape& shape) {
  Model model;
  model.family = Family::vision;
  model.hidden = shape.hidden;
  model.out = shape.out;
  model.merge = shape.merge * shape.merge;
  model.features = 1 + std::count(shape.taps.begin(), shape.taps.end(), true);
  model.layers.push_back(patch_embedding(shape));
  for (size_t i = 0; i < size_t(shape.layers); ++i)
    model.layers.push_back(
        block(shape, !shape.windowed.empty() && shape.windowed[i], !shape.taps.empty() && shape.taps[i]));
  model.layers.push_back(merger(shape));
  return model;
}

}  // namespace bigmac::cost
