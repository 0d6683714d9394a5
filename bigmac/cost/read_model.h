#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "bigmac/cost/model.h"

namespace bigmac::cost {

// Which part of a configuration that holds several models: Qwen2.5-VL, Qwen3-VL and dots.ocr hold an LLM and
// its vision encoder, Qwen3-Omni an audio encoder too. `whole` is the file's own model; for these the LLM.
enum class Tower : uint8_t { whole, text, vision, audio };
std::string_view name(Tower tower);            // whole, text, vision, audio
Tower tower_from_name(std::string_view text);  // InvalidInput with the nearest known name

// A model from its Hugging Face configuration (config.json of transformers or diffusers), or from the same
// fields in YAML. What it is stands in `architectures`, `_class_name` or `model_type`; known are those of
// known_architectures(). `source` names the file in errors. Fields that the model's published class has a
// default for may be missing where they say how it is built; sizes may not, except in encoders' details.
// Fields that say nothing about shapes are passed over. Throws InvalidInput:
//   - not JSON or YAML, truncated, not UTF-8 (with line and column), larger than kMostConfigBytes
//   - an unknown architecture, naming the nearest known one and what of its fields the file has and lacks
//   - missing fields (all of them named), a field of a wrong type, sizes that are not positive, too large
//   (more
//     than kMostLayers layers) or do not divide (heads by kv heads, hidden by heads where there is no
//     head_dim)
//   - what would be counted wrongly: sliding-window attention
Model read_model(std::string_view text, const std::string& source, Tower tower = Tower::whole);
Model model_from(const nlohmann::json& config, const std::string& source, Tower tower = Tower::whole);
Model read_model_file(const std::string& path, Tower tower = Tower::whole);

// Whether the configuration holds a vision encoder beside an LLM.
bool has_vision(const nlohmann::json& config);

inline constexpr size_t kMostConfigBytes = 4 << 20;
inline constexpr int64_t kMostLayers = 4096;

std::vector<std::string> known_architectures();

}  // namespace bigmac::cost
