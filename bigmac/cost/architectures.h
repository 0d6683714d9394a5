#pragma once

#include <string>
#include <vector>

#include "bigmac/cost/config_fields.h"
#include "bigmac/cost/model.h"
#include "bigmac/cost/read_model.h"

namespace bigmac::cost {

// One model that a configuration may hold, and how it is read.
struct TowerReader {
  Tower tower = Tower::whole;
  std::vector<std::string>
      path;  // of its object in the file; where `loose`, the file itself where that lacks
  bool loose = false;
  std::vector<std::string> needs;  // sizes that have no default
  Model (*read)(const ConfigFields& fields, bool tied) = nullptr;
};

struct Architecture {
  std::string name;                 // the published class
  std::string model_type;           // "" where it says nothing else
  std::vector<TowerReader> towers;  // the first is the file's own model
};

const std::vector<Architecture>& architectures();

// By family: what each published class makes of its fields. `tied`: the head is the embedding table.
Model read_llama(const ConfigFields& fields, bool tied);
Model read_qwen2(const ConfigFields& fields, bool tied);
Model read_qwen3(const ConfigFields& fields, bool tied);
Model read_qwen3_moe(const ConfigFields& fields, bool tied);
Model read_qwen25_vision(const ConfigFields& fields, bool tied);
Model read_qwen3_vision(const ConfigFields& fields, bool tied);
Model read_dots_vision(const ConfigFields& fields, bool tied);
Model read_qwen3_audio(const ConfigFields& fields, bool tied);
Model read_whisper(const ConfigFields& fields, bool tied);
Model read_qwen_image(const ConfigFields& fields, bool tied);
Model read_flux(const ConfigFields& fields, bool tied);

}  // namespace bigmac::cost
