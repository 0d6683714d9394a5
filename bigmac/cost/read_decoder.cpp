#include <algorithm>

#include "bigmac/common/error.h"
#include "bigmac/cost/architectures.h"
#include "bigmac/cost/decoder_model.h"

namespace bigmac::cost {
namespace {

constexpr int64_t kMostVocabulary = int64_t{1} << 24;
constexpr int64_t kMostExperts = 4096;

void check_no_window(const ConfigFields& fields, int64_t layers) {
  if (!fields.flag_or("use_sliding_window", false)) return;
  // Layers from this one on have windows.
  if (fields.has("max_window_layers") && fields.whole("max_window_layers", INT64_MAX, 0) >= layers) return;
  fields.refuse("use_sliding_window",
                "is true, and sliding-window attention is not counted; false counts all of a sequence");
}

// What all decoders share. default_head_dim 0: hidden over heads.
DecoderShape decoder_shape(const ConfigFields& fields, bool tied, int64_t default_head_dim) {
  DecoderShape shape;
  shape.tied = tied;
  shape.vocabulary = fields.whole("vocab_size", kMostVocabulary);
  shape.hidden = fields.whole("hidden_size", kMostWidth);
  shape.layers = fields.whole("num_hidden_layers", kMostLayers);
  shape.heads = fields.whole("num_attention_heads", kMostWidth);
  shape.kv_heads = fields.whole_or("num_key_value_heads", shape.heads, kMostWidth);
  fields.check_divides("num_key_value_heads", shape.kv_heads, "num_attention_heads", shape.heads);
  shape.head_dim = fields.whole_or("head_dim", default_head_dim, kMostWidth);
  if (!fields.has("head_dim") && default_head_dim == 0) {
    fields.check_divides("num_attention_heads", shape.heads, "hidden_size", shape.hidden);
    shape.head_dim = shape.hidden / shape.heads;
  }
  if (shape.heads * shape.head_dim > 4 * kMostWidth)
    fields.refuse("head_dim", concat("is too large: ", shape.heads, " heads of ", shape.head_dim,
                                     " are wider than ", 4 * kMostWidth));
  check_no_window(fields, shape.layers);
  return shape;
}

int64_t dense_ffn(const ConfigFields& fields) {
  return fields.whole("intermediate_size", 4 * kMostWidth);
}

}  // namespace

Model read_llama(const ConfigFields& fields, bool tied) {
  auto shape = decoder_shape(fields, tied, 0);
  shape.ffn = dense_ffn(fields);
  shape.qkv_bias = shape.o_bias = fields.flag_or("attention_bias", false);
  shape.mlp_bias = fields.flag_or("mlp_bias", false);
  return decoder_model(shape);
}

Model read_qwen2(const ConfigFields& fields, bool tied) {
  auto shape = decoder_shape(fields, tied, 0);
  shape.ffn = dense_ffn(fields);
  shape.qkv_bias = true;
  return decoder_model(shape);
}

Model read_qwen3(const ConfigFields& fields, bool tied) {
  auto shape = decoder_shape(fields, tied, 128);
  shape.ffn = dense_ffn(fields);
  shape.qkv_bias = shape.o_bias = fields.flag_or("attention_bias", false);
  shape.qk_norm = true;
  return decoder_model(shape);
}

Model read_qwen3_moe(const ConfigFields& fields, bool tied) {
  auto shape = decoder_shape(fields, tied, 0);
  shape.qkv_bias = shape.o_bias = fields.flag_or("attention_bias", false);
  shape.qk_norm = true;
  shape.experts = fields.whole("num_experts", kMostExperts, 0);
  shape.top_k = fields.whole("num_experts_per_tok", std::max<int64_t>(shape.experts, 1));
  shape.expert_ffn = fields.whole("moe_intermediate_size", 4 * kMostWidth);
  int64_t step = fields.whole_or("decoder_sparse_step", 1, INT64_MAX);
  auto dense = fields.indexes_or("mlp_only_layers", {}, shape.layers - 1);
  for (int64_t i = 0; i < shape.layers; ++i) shape.sparse.push_back(shape.experts > 0 && (i + 1) % step == 0);
  for (int64_t i : dense) shape.sparse[size_t(i)] = false;
  if (std::count(shape.sparse.begin(), shape.sparse.end(), false) > 0) shape.ffn = dense_ffn(fields);
  return decoder_model(shape);
}

}  // namespace bigmac::cost
