#include "bigmac/cost/parts.h"

#include <utility>

namespace bigmac::cost {
namespace {

Part part_of(PartKind kind, std::string name, int64_t in, int64_t out, Cut cut) {
  Part part;
  part.kind = kind;
  part.name = std::move(name);
  part.in = in;
  part.out = out;
  part.cut = cut;
  return part;
}

// Scores of a softmax that is stored: heads elements a row and key.
Saved scores(std::string name, int64_t heads, double bytes) {
  Saved saved = with_bytes(computed_again(cut(kept(std::move(name), heads))), bytes);
  saved.per_key = true;
  return saved;
}

}  // namespace

Part linear(std::string name, int64_t in, int64_t out, bool bias, Cut cut) {
  Part part = part_of(PartKind::linear, std::move(name), in, out, cut);
  part.bias = bias;
  return part;
}

Part norm(std::string name, int64_t width, bool bias) {
  Part part = part_of(PartKind::norm, std::move(name), width, width, Cut::none);
  part.bias = bias;
  return part;
}

Part elementwise(std::string name, int64_t in, int64_t out) {
  return part_of(PartKind::elementwise, std::move(name), in, out, Cut::none);
}

Part embedding(std::string name, int64_t entries, int64_t width, Cut cut) {
  return part_of(PartKind::embedding, std::move(name), entries, width, cut);
}

Part attention(std::string name, int64_t heads, int64_t kv_heads, int64_t head_dim) {
  Part part = part_of(PartKind::attention, std::move(name), 0, 0, Cut::heads);
  part.heads = heads;
  part.kv_heads = kv_heads;
  part.head_dim = head_dim;
  return part;
}

Saved kept(std::string name, int64_t width) {
  Saved saved;
  saved.name = std::move(name);
  saved.width = double(width);
  return saved;
}

Saved cut(Saved saved) {
  saved.cut = true;
  return saved;
}

Saved for_weights(Saved saved) {
  saved.for_weights = true;
  return saved;
}

Saved computed_again(Saved saved) {
  saved.selective = true;
  return saved;
}

Saved with_bytes(Saved saved, double bytes) {
  saved.bytes = bytes;
  return saved;
}

Part block_norm(std::string name, int64_t width, bool bias, bool first) {
  Part part = norm(std::move(name), width, bias);
  if (first) part.saved.push_back(kept("input", width));
  part.saved.push_back(computed_again(for_weights(kept("output", width))));
  return part;
}

Part residual(std::string name, int64_t width, bool kept_sum) {
  Part part = elementwise(std::move(name), 2 * width, width);
  if (kept_sum) part.saved.push_back(kept("sum", width));
  return part;
}

Layer gpt_layer(int64_t hidden, int64_t heads) {
  Layer layer{"layer", {}};
  auto add = [&](Part part, std::vector<Saved> saved) {
    part.saved = std::move(saved);
    layer.parts.push_back(std::move(part));
  };
  auto mask = [&] { return with_bytes(kept("mask", hidden), 1); };
  add(norm("input_layernorm", hidden, true), {kept("input", hidden), for_weights(kept("output", hidden))});
  add(linear("query_key_value", hidden, 3 * hidden, true, Cut::columns),
      {cut(kept("q and k", 2 * hidden)), cut(kept("v", hidden))});
  add(attention("core_attention", heads, heads, hidden / heads),
      {scores("softmax", heads, 2), scores("mask", heads, 1), scores("dropped softmax", heads, 2),
       cut(for_weights(kept("output", hidden)))});
  add(linear("dense", hidden, hidden, true, Cut::rows), {});
  add(elementwise("attention_dropout", hidden, hidden), {mask()});
  add(residual("attention_residual", hidden, true), {kept("sum", hidden)});
  add(norm("post_attention_layernorm", hidden, true), {for_weights(kept("output", hidden))});
  add(linear("dense_h_to_4h", hidden, 4 * hidden, true, Cut::columns), {cut(kept("output", 4 * hidden))});
  Part gelu = elementwise("gelu", 4 * hidden, 4 * hidden);
  gelu.cut = Cut::columns;
  add(gelu, {cut(for_weights(kept("output", 4 * hidden)))});
  add(linear("dense_4h_to_h", 4 * hidden, hidden, true, Cut::rows), {});
  add(elementwise("mlp_dropout", hidden, hidden), {mask()});
  add(residual("mlp_residual", hidden, false), {});
  return layer;
}

}  // namespace bigmac::cost
