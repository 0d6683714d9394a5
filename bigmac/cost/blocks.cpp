#include "bigmac/cost/blocks.h"

#include <utility>

#include "bigmac/cost/parts.h"

namespace bigmac::cost {
namespace {

Part with(Part part, Saved saved) {
  part.saved.push_back(std::move(saved));
  return part;
}

// Of a gated activation or a GELU: its output is read by `down` alone.
Part activation(const MlpShape& shape, int64_t in) {
  Part part = elementwise(shape.prefix + "activation", in, shape.ffn);
  part.cut = Cut::columns;
  return with(part, computed_again(for_weights(cut(kept("output", shape.ffn)))));
}

Part up(const MlpShape& shape, const std::string& name) {
  return with(linear(shape.prefix + name, shape.in, shape.ffn, shape.bias, Cut::columns),
              cut(kept("output", shape.ffn)));
}

Part down(const MlpShape& shape) {
  return linear(shape.prefix + shape.down, shape.ffn, shape.out, shape.bias, Cut::rows);
}

void add_on(Rows rows, std::vector<Part>& parts, std::vector<Part> more) {
  for (auto& part : more) {
    part.rows = rows;
    parts.push_back(std::move(part));
  }
}

}  // namespace

Part flash_attention(std::string name, int64_t heads, int64_t kv_heads, int64_t head_dim) {
  Part part = attention(std::move(name), heads, kv_heads, head_dim);
  part.saved = {cut(kept("output", heads * head_dim)), with_bytes(cut(kept("log-sum-exp", heads)), 4)};
  return part;
}

Part head_norm(std::string name, int64_t heads, int64_t head_dim) {
  Part part = norm(std::move(name), head_dim, false);
  part.per_row = heads;
  return part;
}

Part rotary(std::string name, int64_t width, bool from_norm) {
  Part part = elementwise(std::move(name), width, width);
  part.cut = Cut::heads;
  Saved saved = cut(kept("q and k", width));
  return with(part, from_norm ? computed_again(saved) : saved);
}

void add_attention(std::vector<Part>& parts, const AttentionShape& shape) {
  int64_t q = shape.heads * shape.head_dim, kv = shape.kv_heads * shape.head_dim;
  // Where nothing stands between the projections and attention, or a norm whose input is kept.
  bool keeps_qk = shape.qk_norm || !shape.rope;
  auto add = [&](const std::string& name, int64_t width, bool bias, std::vector<Saved> saved) {
    parts.push_back(linear(shape.prefix + name, shape.hidden, width, bias, Cut::columns));
    parts.back().saved = std::move(saved);
  };
  auto keep = [&](const char* name, int64_t width) {
    return keeps_qk ? std::vector<Saved>{cut(kept(name, width))} : std::vector<Saved>{};
  };
  Saved v = cut(kept("v", kv));
  if (shape.fused) {
    auto saved = keep("q and k", q + kv);
    saved.push_back(v);
    add(shape.qkv, q + 2 * kv, shape.q_bias, saved);
  } else {
    add(shape.q, q, shape.q_bias, keep("q", q));
    add(shape.k, kv, shape.k_bias, keep("k", kv));
    add(shape.v, kv, shape.v_bias, {v});
  }
  if (shape.qk_norm) {
    parts.push_back(head_norm(shape.prefix + "q_norm", shape.heads, shape.head_dim));
    parts.push_back(head_norm(shape.prefix + "k_norm", shape.kv_heads, shape.head_dim));
  }
  if (shape.rope) parts.push_back(rotary(shape.prefix + "rotary", q + kv, shape.qk_norm));
  Part core = flash_attention(shape.prefix + "attention", shape.heads, shape.kv_heads, shape.head_dim);
  core.causal = shape.causal;
  core.window = shape.window;
  parts.push_back(std::move(core));
  parts.push_back(linear(shape.prefix + shape.o, q, shape.hidden, shape.o_bias, Cut::rows));
}

void add_gated_mlp(std::vector<Part>& parts, const MlpShape& shape) {
  add_on(shape.rows, parts,
         {up(shape, shape.gate), up(shape, shape.up), activation(shape, 2 * shape.ffn), down(shape)});
}

void add_mlp(std::vector<Part>& parts, const MlpShape& shape) {
  add_on(shape.rows, parts, {up(shape, shape.up), activation(shape, shape.ffn), down(shape)});
}

void add_mixture(std::vector<Part>& parts, const MlpShape& shape, int64_t experts, int64_t top_k) {
  parts.push_back(with(linear(shape.prefix + "gate", shape.in, experts, false, Cut::none),
                       with_bytes(kept("probabilities", experts), 4)));
  MlpShape expert = shape;
  expert.prefix += "experts.";
  std::vector<Part> copies = {
      with(elementwise(expert.prefix + "permute", shape.in, shape.in), for_weights(kept("rows", shape.in)))};
  add_gated_mlp(copies, expert);
  for (auto& part : copies) {
    part.experts = experts;
    part.top_k = top_k;
    part.cut = Cut::none;
    for (auto& saved : part.saved) saved.cut = false;
    parts.push_back(std::move(part));
  }
  parts.push_back(with(elementwise(expert.prefix + "sum", top_k * shape.out, shape.out),
                       kept("outputs", top_k * shape.out)));
}

}  // namespace bigmac::cost
