#include <algorithm>
#include <nlohmann/json.hpp>

#include "bigmac/common/names.h"
#include "bigmac/nn/qwen3_weights.h"

namespace bigmac::nn {
namespace {

using nlohmann::json;

// The fields of one object; a field that is null counts as missing.
class Fields {
 public:
  Fields(const json& object, std::string source) : object_(object), source_(std::move(source)) {}

  template <class... Parts>
  [[noreturn]] void refuse(const Parts&... parts) const {
    throw InvalidInput(concat(source_, ": ", parts...));
  }

  const json* find(const char* name) const {
    auto found = object_.find(name);
    return found == object_.end() || found->is_null() ? nullptr : &*found;
  }

  const json& at(const char* name) const {
    if (const auto* value = find(name)) return *value;
    std::vector<std::string> present;
    for (const auto& item : object_.items()) present.push_back(item.key());
    const auto nearest = nearest_name(name, present);
    refuse(name, " is missing", nearest.empty() ? "" : concat(" (is '", nearest, "' meant?)"));
  }

  int64_t whole(const char* name) const {
    const auto& value = at(name);
    if (!value.is_number_integer() || value.get<int64_t>() < 1)
      refuse(name, " is ", value.dump(), ", expected a whole number from 1 on");
    return value.get<int64_t>();
  }
  int64_t whole_or(const char* name, int64_t fallback) const { return find(name) ? whole(name) : fallback; }

  double number(const char* name) const {
    const auto& value = at(name);
    if (!value.is_number() || !(value.get<double>() > 0))
      refuse(name, " is ", value.dump(), ", expected a number above 0");
    return value.get<double>();
  }
  double number_or(const char* name, double fallback) const { return find(name) ? number(name) : fallback; }

  bool flag_or(const char* name, bool fallback) const {
    const auto* value = find(name);
    if (!value) return fallback;
    if (!value->is_boolean()) refuse(name, " is ", value->dump(), ", expected true or false");
    return value->get<bool>();
  }

  // A field that, where it is there, must have this value.
  void only(const char* name, const json& value) const {
    if (const auto* found = find(name); found && *found != value)
      refuse(name, " is ", found->dump(), ", only ", value.dump(), " is supported");
  }

 private:
  const json& object_;
  std::string source_;
};

json parsed(std::string_view text, std::string_view source) {
  json object;
  try {
    object = json::parse(text);
  } catch (const json::parse_error& error) {
    throw InvalidInput(concat(source, ": not JSON: ", error.what()));
  }
  if (!object.is_object()) throw InvalidInput(concat(source, ": expected an object of fields"));
  return object;
}

// Either rope_theta beside rope_scaling, or both in rope_parameters, as newer files have it.
double rope_theta(const Fields& fields, const std::string& source) {
  auto unscaled = [&](const char* name) -> const json* {
    const auto* rope = fields.find(name);
    if (!rope) return nullptr;
    if (!rope->is_object()) fields.refuse(name, " is ", rope->dump(), ", expected an object");
    const Fields inner(*rope, concat(source, ": ", name));
    inner.only("rope_type", "default");
    inner.only("type", "default");
    return rope;
  };
  unscaled("rope_scaling");
  const auto* parameters = unscaled("rope_parameters");
  if (parameters && parameters->contains("rope_theta"))
    return Fields(*parameters, concat(source, ": rope_parameters")).number("rope_theta");
  return fields.number("rope_theta");
}

}  // namespace

DecoderConfig read_qwen3_config(std::string_view text, std::string_view source) {
  const auto object = parsed(text, source);
  const std::string from(source);
  const Fields fields(object, from);
  const auto& type = fields.at("model_type");
  if (type != "qwen3" && type != "qwen3_moe")
    fields.refuse("model_type is ", type.dump(), ", expected \"qwen3\" or \"qwen3_moe\"");
  const bool mixture = type == "qwen3_moe";
  fields.only("hidden_act", "silu");
  fields.only("attention_bias", false);
  fields.only("use_sliding_window", false);

  DecoderConfig config;
  config.vocabulary = fields.whole("vocab_size");
  config.hidden = fields.whole("hidden_size");
  config.layers = fields.whole("num_hidden_layers");
  config.heads = fields.whole("num_attention_heads");
  config.kv_heads = fields.whole("num_key_value_heads");
  config.head_dim =
      fields.whole_or("head_dim", mixture ? std::max<int64_t>(1, config.hidden / config.heads) : 128);
  config.ffn = fields.whole("intermediate_size");
  config.rope_theta = rope_theta(fields, from);
  config.eps = fields.number_or("rms_norm_eps", 1e-6);
  config.tied_embeddings = fields.flag_or("tie_word_embeddings", false);
  if (mixture) {
    fields.only("decoder_sparse_step", 1);
    fields.only("mlp_only_layers", json::array());
    config.moe = MoeConfig{fields.whole("num_experts"), fields.whole("num_experts_per_tok"),
                           fields.whole("moe_intermediate_size"), fields.flag_or("norm_topk_prob", false)};
  }
  try {
    config.check();
  } catch (const InvalidInput& error) {
    fields.refuse(error.what());
  }
  return config;
}

std::string qwen3_config_json(const DecoderConfig& config) {
  config.check();
  json object = {{"architectures", {config.moe ? "Qwen3MoeForCausalLM" : "Qwen3ForCausalLM"}},
                 {"model_type", config.moe ? "qwen3_moe" : "qwen3"},
                 {"vocab_size", config.vocabulary},
                 {"hidden_size", config.hidden},
                 {"num_hidden_layers", config.layers},
                 {"num_attention_heads", config.heads},
                 {"num_key_value_heads", config.kv_heads},
                 {"head_dim", config.head_dim},
                 {"intermediate_size", config.ffn},
                 {"hidden_act", "silu"},
                 {"attention_bias", false},
                 {"rope_theta", config.rope_theta},
                 {"rms_norm_eps", config.eps},
                 {"tie_word_embeddings", config.tied_embeddings}};
  if (config.moe) {
    object["num_experts"] = config.moe->experts;
    object["num_experts_per_tok"] = config.moe->experts_per_token;
    object["moe_intermediate_size"] = config.moe->ffn;
    object["norm_topk_prob"] = config.moe->normalise_top_k;
    object["decoder_sparse_step"] = 1;
    object["mlp_only_layers"] = json::array();
  }
  return object.dump(2) + "\n";
}

}  // namespace bigmac::nn
