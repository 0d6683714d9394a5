#include "bigmac/cost/decoder_model.h"

#include <utility>

#include "bigmac/cost/blocks.h"
#include "bigmac/cost/parts.h"

namespace bigmac::cost {
namespace {

Layer embedding_layer(const DecoderShape& shape) {
  Part table = embedding("embed_tokens", shape.vocabulary, shape.hidden, Cut::vocabulary);
  table.saved = {with_bytes(for_weights(kept("ids", 1)), 8)};
  return {"embedding", {table}};
}

Layer decoder_layer(const DecoderShape& shape, bool sparse) {
  Layer layer{sparse ? "moe layer" : "layer", {}};
  auto& parts = layer.parts;
  parts.push_back(block_norm("input_layernorm", shape.hidden, false, true));
  AttentionShape attention;
  attention.hidden = shape.hidden;
  attention.heads = shape.heads;
  attention.kv_heads = shape.kv_heads;
  attention.head_dim = shape.head_dim;
  attention.q_bias = attention.k_bias = attention.v_bias = shape.qkv_bias;
  attention.o_bias = shape.o_bias;
  attention.qk_norm = shape.qk_norm;
  attention.causal = true;
  attention.prefix = "self_attn.";
  add_attention(parts, attention);
  parts.push_back(residual("self_attn.residual", shape.hidden, true));
  parts.push_back(block_norm("post_attention_layernorm", shape.hidden, false, false));
  MlpShape mlp;
  mlp.in = mlp.out = shape.hidden;
  mlp.ffn = sparse ? shape.expert_ffn : shape.ffn;
  mlp.bias = shape.mlp_bias && !sparse;
  mlp.prefix = "mlp.";
  if (sparse)
    add_mixture(parts, mlp, shape.experts, shape.top_k);
  else
    add_gated_mlp(parts, mlp);
  parts.push_back(residual("mlp.residual", shape.hidden, false));
  return layer;
}

Layer head_layer(const DecoderShape& shape) {
  Part projection = linear("lm_head", shape.hidden, shape.vocabulary, false, Cut::vocabulary);
  projection.tied = shape.tied;
  Part loss = elementwise("loss", shape.vocabulary, 1);
  loss.cut = Cut::vocabulary;
  loss.saved = {with_bytes(cut(kept("logits", shape.vocabulary)), 4)};
  return {"head", {block_norm("norm", shape.hidden, false, true), projection, loss}};
}

}  // namespace

Model decoder_model(const DecoderShape& shape) {
  Model model;
  model.family = Family::decoder;
  model.hidden = model.out = shape.hidden;
  model.layers.push_back(embedding_layer(shape));
  Layer dense = decoder_layer(shape, false), mixture;
  if (!shape.sparse.empty()) mixture = decoder_layer(shape, true);
  for (int64_t i = 0; i < shape.layers; ++i) {
    bool sparse = !shape.sparse.empty() && shape.sparse[size_t(i)];
    model.layers.push_back(sparse ? mixture : dense);
  }
  model.layers.push_back(head_layer(shape));
  return model;
}

}  // namespace bigmac::cost
