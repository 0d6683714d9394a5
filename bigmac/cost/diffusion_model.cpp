#include "bigmac/cost/diffusion_model.h"

#include <utility>

#include "bigmac/cost/blocks.h"
#include "bigmac/cost/parts.h"

namespace bigmac::cost {
namespace {

constexpr int64_t kTimeChannels = 256;  // sine and cosine features of the time

Part on(Rows rows, Part part) {
  part.rows = rows;
  return part;
}

Part keeping(Part part, std::vector<Saved> saved) {
  part.saved = std::move(saved);
  return part;
}

// linear, SiLU, linear, once a sample.
void add_sample_embedder(std::vector<Part>& parts, const std::string& prefix, int64_t in, int64_t width) {
  Part first = on(Rows::samples, linear(prefix + "linear_1", in, width, true, Cut::none));
  first.of_data = true;
  first.saved = {for_weights(kept("input", in)), kept("output", width)};
  parts.push_back(std::move(first));
  parts.push_back(on(Rows::samples, keeping(elementwise(prefix + "activation", width, width),
                                            {computed_again(for_weights(kept("output", width)))})));
  parts.push_back(on(Rows::samples, linear(prefix + "linear_2", width, width, true, Cut::none)));
}

// `count` vectors a sample that shift, scale and gate the rows of a block.
Part modulation(const std::string& name, int64_t width, int64_t count) {
  return on(Rows::samples, keeping(linear(name, width, count * width, true, Cut::columns),
                                   {for_weights(kept("embedding", width)), kept("output", count * width)}));
}

// A LayerNorm without weights, then shift and scale: the scale's gradient needs the normed rows.
Part modulated_norm(const std::string& name, Rows rows, int64_t width, bool first) {
  Part part = on(rows, elementwise(name, width, width));
  if (first) part.saved.push_back(kept("input", width));
  part.saved.push_back(computed_again(for_weights(kept("normed", width))));
  part.saved.push_back(computed_again(for_weights(kept("output", width))));
  return part;
}

// x + gate * y: the gate's gradient needs y.
Part gated_residual(const std::string& name, Rows rows, int64_t width, bool kept_sum) {
  Part part = on(rows, residual(name, width, kept_sum));
  part.saved.push_back(for_weights(kept("branch", width)));
  return part;
}

Part kept_projection(const std::string& name, Rows rows, int64_t in, int64_t out, const char* tensor) {
  return on(rows, keeping(linear(name, in, out, true, Cut::columns), {cut(kept(tensor, out))}));
}

Layer embedding_layer(const DiffusionShape& shape, int64_t width) {
  Layer layer{"embedding", {}};
  auto& parts = layer.parts;
  add_sample_embedder(parts, "time_text_embed.timestep_embedder.", kTimeChannels, width);
  if (shape.guidance) add_sample_embedder(parts, "time_text_embed.guidance_embedder.", kTimeChannels, width);
  if (shape.pooled_in > 0)
    add_sample_embedder(parts, "time_text_embed.text_embedder.", shape.pooled_in, width);
  Part image = linear("img_in", shape.latent_in, width, true, Cut::none);
  image.of_data = true;
  image.saved = {for_weights(kept("latents", shape.latent_in))};
  parts.push_back(std::move(image));
  if (shape.text_norm) parts.push_back(on(Rows::text, block_norm("txt_norm", shape.text_in, false, true)));
  Part text = on(Rows::text, linear("txt_in", shape.text_in, width, true, Cut::none));
  if (!shape.text_norm) text.saved = {for_weights(kept("input", shape.text_in))};
  parts.push_back(std::move(text));
  return layer;
}

// Up to attention, of one stream of a double block.
void add_before_attention(std::vector<Part>& parts, const DiffusionShape& shape, const std::string& stream,
                          Rows rows, int64_t width) {
  bool image = rows == Rows::tokens;
  parts.push_back(modulation(stream + "_mod", width, 6));
  parts.push_back(modulated_norm(stream + "_norm1", rows, width, true));
  auto named = [&](const char* of_image, const char* of_text) {
    return std::string("attn.") + (image ? of_image : of_text);
  };
  parts.push_back(kept_projection(named("to_q", "add_q_proj"), rows, width, width, "q"));
  parts.push_back(kept_projection(named("to_k", "add_k_proj"), rows, width, width, "k"));
  parts.push_back(kept_projection(named("to_v", "add_v_proj"), rows, width, width, "v"));
  parts.push_back(on(rows, head_norm(named("norm_q", "norm_added_q"), shape.heads, shape.head_dim)));
  parts.push_back(on(rows, head_norm(named("norm_k", "norm_added_k"), shape.heads, shape.head_dim)));
  parts.push_back(on(rows, rotary(named("rotary", "added_rotary"), 2 * width, true)));
}

void add_after_attention(std::vector<Part>& parts, const DiffusionShape& shape, const std::string& stream,
                         Rows rows, int64_t width) {
  bool image = rows == Rows::tokens;
  parts.push_back(
      on(rows, linear(image ? "attn.to_out.0" : "attn.to_add_out", width, width, true, Cut::rows)));
  parts.push_back(gated_residual(stream + "_attn.residual", rows, width, true));
  parts.push_back(modulated_norm(stream + "_norm2", rows, width, false));
  MlpShape mlp;
  mlp.in = mlp.out = width;
  mlp.ffn = shape.ffn;
  mlp.bias = true;
  mlp.rows = rows;
  mlp.prefix = stream + "_mlp.";
  mlp.up = "net.0.proj";
  mlp.down = "net.2";
  add_mlp(parts, mlp);
  parts.push_back(gated_residual(stream + "_mlp.residual", rows, width, false));
}

Layer double_block(const DiffusionShape& shape, int64_t width) {
  Layer layer{"double block", {}};
  add_before_attention(layer.parts, shape, "img", Rows::tokens, width);
  add_before_attention(layer.parts, shape, "txt", Rows::text, width);
  layer.parts.push_back(
      on(Rows::joint, flash_attention("attn.attention", shape.heads, shape.heads, shape.head_dim)));
  add_after_attention(layer.parts, shape, "img", Rows::tokens, width);
  add_after_attention(layer.parts, shape, "txt", Rows::text, width);
  return layer;
}

Layer single_block(const DiffusionShape& shape, int64_t width) {
  constexpr Rows rows = Rows::joint;
  Layer layer{"single block", {}};
  auto& parts = layer.parts;
  parts.push_back(modulation("norm.linear", width, 3));
  parts.push_back(modulated_norm("norm", rows, width, true));
  parts.push_back(kept_projection("attn.to_q", rows, width, width, "q"));
  parts.push_back(kept_projection("attn.to_k", rows, width, width, "k"));
  parts.push_back(kept_projection("attn.to_v", rows, width, width, "v"));
  parts.push_back(on(rows, head_norm("attn.norm_q", shape.heads, shape.head_dim)));
  parts.push_back(on(rows, head_norm("attn.norm_k", shape.heads, shape.head_dim)));
  parts.push_back(on(rows, rotary("attn.rotary", 2 * width, true)));
  parts.push_back(on(rows, flash_attention("attn.attention", shape.heads, shape.heads, shape.head_dim)));
  parts.push_back(kept_projection("proj_mlp", rows, width, shape.ffn, "output"));
  // GELU, then attention's output and the activation side by side.
  Part joined = on(rows, elementwise("act_mlp", width + shape.ffn, width + shape.ffn));
  joined.cut = Cut::columns;
  joined.saved = {computed_again(for_weights(cut(kept("output", width + shape.ffn))))};
  parts.push_back(std::move(joined));
  parts.push_back(on(rows, linear("proj_out", width + shape.ffn, width, true, Cut::rows)));
  parts.push_back(gated_residual("residual", rows, width, false));
  return layer;
}

Layer head_layer(const DiffusionShape& shape, int64_t width) {
  return {"head",
          {modulation("norm_out.linear", width, 2), modulated_norm("norm_out", Rows::tokens, width, true),
           linear("proj_out", width, shape.latent_out, true, Cut::none)}};
}

}  // namespace

Model diffusion_model(const DiffusionShape& shape) {
  int64_t width = shape.heads * shape.head_dim;
  Model model;
  model.family = Family::diffusion;
  model.hidden = width;
  model.out = width;
  model.layers.push_back(embedding_layer(shape, width));
  Layer of_two = double_block(shape, width), of_one = single_block(shape, width);
  for (int64_t i = 0; i < shape.double_blocks; ++i) model.layers.push_back(of_two);
  for (int64_t i = 0; i < shape.single_blocks; ++i) model.layers.push_back(of_one);
  model.layers.push_back(head_layer(shape, width));
  return model;
}

}  // namespace bigmac::cost
