#pragma once

#include <torch/types.h>

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "bigmac/nn/decoder.h"

// Qwen3 and Qwen3-MoE checkpoints as Hugging Face stores them: their parameter names, shapes and config.json.
// The prefix ("llm.") stands before our names only. Errors are InvalidInput.
namespace bigmac::nn {

struct Qwen3Parameter {
  std::string ours;    // llm.layers.3.attention.q.weight
  std::string theirs;  // model.layers.3.self_attn.q_proj.weight
  std::vector<int64_t> shape;
};

// Every parameter of the model, in order; with tied embeddings there is no head weight.
//   embedding.weight                    model.embed_tokens.weight
//   layers.L.attention_norm.weight      model.layers.L.input_layernorm.weight
//   layers.L.attention.{q,k,v,o}.weight model.layers.L.self_attn.{q,k,v,o}_proj.weight
//   layers.L.attention.{q,k}_norm.weight model.layers.L.self_attn.{q,k}_norm.weight
//   layers.L.mlp_norm.weight            model.layers.L.post_attention_layernorm.weight
//   layers.L.mlp.{gate,up,down}.weight  model.layers.L.mlp.{gate,up,down}_proj.weight
//   layers.L.mlp.router.weight          model.layers.L.mlp.gate.weight
//   layers.L.mlp.experts.E.*.weight     model.layers.L.mlp.experts.E.*_proj.weight
//   head.norm.weight, head.weight       model.norm.weight, lm_head.weight
std::vector<Qwen3Parameter> qwen3_parameters(const DecoderConfig& config, std::string_view prefix = "llm.");

// One name. A name that the model does not have is an error which gives the nearest.
std::string to_qwen3_name(std::string_view ours, const DecoderConfig& config,
                          std::string_view prefix = "llm.");
std::string from_qwen3_name(std::string_view theirs, const DecoderConfig& config,
                            std::string_view prefix = "llm.");

// All tensors of a checkpoint under the other names; the tensors are the same objects, of any data type.
// Missing and extra names (the nearest is named) and wrong shapes (both are given) are errors.
// Tied embeddings: from_qwen3 gives head.weight as the embedding itself, and accepts an lm_head.weight that
// equals it; to_qwen3 leaves head.weight out, and refuses one that differs from the embedding.
using NamedTensors = std::map<std::string, torch::Tensor>;
NamedTensors from_qwen3(const NamedTensors& theirs, const DecoderConfig& config,
                        std::string_view prefix = "llm.");
NamedTensors to_qwen3(const NamedTensors& ours, const DecoderConfig& config,
                      std::string_view prefix = "llm.");

// The text of a config.json with model_type qwen3 or qwen3_moe, and back. What would change the computation
// and is not supported is refused by name: scaled rotary positions, sliding windows, attention biases,
// another activation than SiLU, layers without experts in a mixture. `source` stands before the errors.
DecoderConfig read_qwen3_config(std::string_view json, std::string_view source = "config.json");
std::string qwen3_config_json(const DecoderConfig& config);

}  // namespace bigmac::nn
