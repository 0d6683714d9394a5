#include "bigmac/cost/audio_model.h"

#include <string>
#include <utility>

#include "bigmac/cost/blocks.h"
#include "bigmac/cost/parts.h"

namespace bigmac::cost {
namespace {

Layer front_end(const AudioShape& shape) {
  Layer layer{"embedding", {}};
  for (size_t i = 0; i < shape.convolutions.size(); ++i) {
    const auto& convolution = shape.convolutions[i];
    auto name = "conv" + std::to_string(i + 1);
    Part part = linear(name, convolution.in, convolution.out, true, Cut::none);
    part.per_row = convolution.positions;
    part.of_data = i == 0;
    // The values under overlapping kernels are kept once; those of the first are data.
    part.saved = {kept("output", convolution.out * convolution.positions)};
    layer.parts.push_back(std::move(part));
    Part gelu = elementwise(name + ".activation", convolution.out, convolution.out);
    gelu.per_row = convolution.positions;
    gelu.saved = {computed_again(for_weights(kept("output", convolution.out * convolution.positions)))};
    layer.parts.push_back(std::move(gelu));
  }
  if (shape.flattened > 0)
    layer.parts.push_back(linear("conv_out", shape.flattened, shape.hidden, false, Cut::none));
  if (shape.positions > 0)
    layer.parts.push_back(embedding("embed_positions", shape.positions, shape.hidden, Cut::none));
  layer.parts.push_back(residual("positions", shape.hidden, false));
  return layer;
}

Layer encoder_layer(const AudioShape& shape) {
  Layer layer{"layer", {}};
  auto& parts = layer.parts;
  parts.push_back(block_norm("self_attn_layer_norm", shape.hidden, true, true));
  AttentionShape attention;
  attention.hidden = shape.hidden;
  attention.heads = attention.kv_heads = shape.heads;
  attention.head_dim = shape.hidden / shape.heads;
  attention.q_bias = attention.v_bias = attention.o_bias = true;
  attention.k_bias = shape.key_bias;
  attention.rope = false;
  attention.window = shape.window;
  attention.prefix = "self_attn.";
  attention.o = "out_proj";
  add_attention(parts, attention);
  parts.push_back(residual("self_attn.residual", shape.hidden, true));
  parts.push_back(block_norm("final_layer_norm", shape.hidden, true, false));
  MlpShape mlp;
  mlp.in = mlp.out = shape.hidden;
  mlp.ffn = shape.ffn;
  mlp.bias = true;
  mlp.up = "fc1";
  mlp.down = "fc2";
  add_mlp(parts, mlp);
  parts.push_back(residual("residual", shape.hidden, false));
  return layer;
}

Layer head(const AudioShape& shape) {
  Layer layer{"head", {}};
  if (shape.out == 0) {
    layer.parts.push_back(norm("layer_norm", shape.hidden, true));
    layer.parts.back().saved = {kept("input", shape.hidden)};
    return layer;
  }
  layer.parts.push_back(block_norm("ln_post", shape.hidden, true, true));
  MlpShape projector;
  projector.in = projector.ffn = shape.hidden;
  projector.out = shape.out;
  projector.bias = true;
  projector.up = "proj1";
  projector.down = "proj2";
  add_mlp(layer.parts, projector);
  return layer;
}

}  // namespace

Model audio_model(const AudioShape& shape) {
  Model model;
  model.family = Family::audio;
  model.hidden = shape.hidden;
  model.out = shape.out > 0 ? shape.out : shape.hidden;
  model.layers.push_back(front_end(shape));
  Layer layer = encoder_layer(shape);
  for (int64_t i = 0; i < shape.layers; ++i) model.layers.push_back(layer);
  model.layers.push_back(head(shape));
  return model;
}

}  // namespace bigmac::cost
