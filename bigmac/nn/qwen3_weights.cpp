#include "bigmac/nn/qwen3_weights.h"

#include <algorithm>
#include <set>

#include "bigmac/common/names.h"

namespace bigmac::nn {
namespace {

using Parameters = std::vector<Qwen3Parameter>;
using Member = std::string Qwen3Parameter::*;

void add_mlp(Parameters& list, const std::string& ours, const std::string& theirs, int64_t hidden,
             int64_t ffn) {
  list.push_back({ours + "gate.weight", theirs + "gate_proj.weight", {ffn, hidden}});
  list.push_back({ours + "up.weight", theirs + "up_proj.weight", {ffn, hidden}});
  list.push_back({ours + "down.weight", theirs + "down_proj.weight", {hidden, ffn}});
}

void add_layer(Parameters& list, const DecoderConfig& c, const std::string& ours, const std::string& theirs) {
  const auto heads = c.heads * c.head_dim, kv_heads = c.kv_heads * c.head_dim;
  const auto attention = ours + "attention.", self_attn = theirs + "self_attn.";
  list.push_back({ours + "attention_norm.weight", theirs + "input_layernorm.weight", {c.hidden}});
  list.push_back({attention + "q.weight", self_attn + "q_proj.weight", {heads, c.hidden}});
  list.push_back({attention + "k.weight", self_attn + "k_proj.weight", {kv_heads, c.hidden}});
  list.push_back({attention + "v.weight", self_attn + "v_proj.weight", {kv_heads, c.hidden}});
  list.push_back({attention + "o.weight", self_attn + "o_proj.weight", {c.hidden, heads}});
  list.push_back({attention + "q_norm.weight", self_attn + "q_norm.weight", {c.head_dim}});
  list.push_back({attention + "k_norm.weight", self_attn + "k_norm.weight", {c.head_dim}});
  list.push_back({ours + "mlp_norm.weight", theirs + "post_attention_layernorm.weight", {c.hidden}});
  if (!c.moe) return add_mlp(list, ours + "mlp.", theirs + "mlp.", c.hidden, c.ffn);
  list.push_back({ours + "mlp.router.weight", theirs + "mlp.gate.weight", {c.moe->experts, c.hidden}});
  for (int64_t i = 0; i < c.moe->experts; ++i) {
    const auto expert = concat("mlp.experts.", i, ".");
    add_mlp(list, ours + expert, theirs + expert, c.hidden, c.moe->ffn);
  }
}

std::string other_name(const Parameters& list, Member from, Member to, std::string_view name) {
  std::vector<std::string> known;
  for (const auto& parameter : list) {
    if (parameter.*from == name) return parameter.*to;
    known.push_back(parameter.*from);
  }
  const auto nearest = nearest_name(name, known);
  throw InvalidInput(concat("Qwen3 weights: unknown parameter '", name, "'",
                            nearest.empty() ? "" : concat(" (did you mean '", nearest, "'?)")));
}

std::string nearest_text(const std::string& name, const std::vector<std::string>& candidates) {
  const auto nearest = nearest_name(name, candidates);
  return nearest.empty() ? "" : concat("; the nearest is '", nearest, "'");
}

// Each parameter's tensor under the other name; takes what was used out of `tensors`.
NamedTensors renamed(const Parameters& list, Member from, Member to, NamedTensors& tensors) {
  NamedTensors result;
  std::vector<std::string> missing;
  for (const auto& parameter : list) {
    auto found = tensors.find(parameter.*from);
    if (found == tensors.end()) {
      missing.push_back(parameter.*from);
      continue;
    }
    expect(found->second.defined() && found->second.sizes() == at::IntArrayRef(parameter.shape),
           "Qwen3 weights: '", parameter.*from, "' has the shape ",
           found->second.defined() ? found->second.sizes() : at::IntArrayRef(), ", the configuration gives ",
           at::IntArrayRef(parameter.shape));
    result.emplace(parameter.*to, found->second);
    tensors.erase(found);
  }
  std::vector<std::string> extra;
  for (const auto& item : tensors) extra.push_back(item.first);
  if (!missing.empty())
    throw InvalidInput(concat("Qwen3 weights: ", missing.size(), " of ", list.size(),
                              " parameters are missing, the first is '", missing[0], "'",
                              nearest_text(missing[0], extra)));
  if (!extra.empty()) {
    std::vector<std::string> known;
    for (const auto& parameter : list) known.push_back(parameter.*from);
    throw InvalidInput(concat("Qwen3 weights: ", extra.size(),
                              " names do not belong to the model, the first is '", extra[0], "'",
                              nearest_text(extra[0], known)));
  }
  return result;
}

// Takes a tied head out of the tensors, where there is one.
void drop_tied(NamedTensors& tensors, const std::string& head, const std::string& embedding) {
  auto found = tensors.find(head), table = tensors.find(embedding);
  if (found == tensors.end() || table == tensors.end()) return;
  expect(found->second.is_same(table->second) ||
             (found->second.sizes() == table->second.sizes() && torch::equal(found->second, table->second)),
         "Qwen3 weights: '", head, "' differs from '", embedding,
         "', but the configuration ties them; expected tie_word_embeddings false, or equal tensors");
  tensors.erase(found);
}

}  // namespace

std::vector<Qwen3Parameter> qwen3_parameters(const DecoderConfig& config, std::string_view prefix) {
  config.check();
  const std::string before(prefix);
  Parameters list;
  list.push_back(
      {before + "embedding.weight", "model.embed_tokens.weight", {config.vocabulary, config.hidden}});
  for (int64_t i = 0; i < config.layers; ++i)
    add_layer(list, config, concat(before, "layers.", i, "."), concat("model.layers.", i, "."));
  list.push_back({before + "head.norm.weight", "model.norm.weight", {config.hidden}});
  if (!config.tied_embeddings)
    list.push_back({before + "head.weight", "lm_head.weight", {config.vocabulary, config.hidden}});
  return list;
}

std::string to_qwen3_name(std::string_view ours, const DecoderConfig& config, std::string_view prefix) {
  return other_name(qwen3_parameters(config, prefix), &Qwen3Parameter::ours, &Qwen3Parameter::theirs, ours);
}

std::string from_qwen3_name(std::string_view theirs, const DecoderConfig& config, std::string_view prefix) {
  return other_name(qwen3_parameters(config, prefix), &Qwen3Parameter::theirs, &Qwen3Parameter::ours, theirs);
}

NamedTensors from_qwen3(const NamedTensors& theirs, const DecoderConfig& config, std::string_view prefix) {
  auto tensors = theirs;
  if (config.tied_embeddings) drop_tied(tensors, "lm_head.weight", "model.embed_tokens.weight");
  auto ours =
      renamed(qwen3_parameters(config, prefix), &Qwen3Parameter::theirs, &Qwen3Parameter::ours, tensors);
  const std::string before(prefix);
  if (config.tied_embeddings) ours.emplace(before + "head.weight", ours.at(before + "embedding.weight"));
  return ours;
}

NamedTensors to_qwen3(const NamedTensors& ours, const DecoderConfig& config, std::string_view prefix) {
  auto tensors = ours;
  const std::string before(prefix);
  if (config.tied_embeddings) drop_tied(tensors, before + "head.weight", before + "embedding.weight");
  return renamed(qwen3_parameters(config, prefix), &Qwen3Parameter::ours, &Qwen3Parameter::theirs, tensors);
}

}  // namespace bigmac::nn
