#include "bigmac/cost/read_model.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "bigmac/common/error.h"
#include "bigmac/common/names.h"
#include "bigmac/cost/architectures.h"
#include "bigmac/cost/config_text.h"
#include "bigmac/formats/in_quotes.h"

namespace bigmac::cost {
namespace {

using nlohmann::json;

constexpr Tower kTowers[] = {Tower::whole, Tower::text, Tower::vision, Tower::audio};
constexpr double kMostParameters = 1e18;

const Architecture* named(const std::string& architecture) {
  for (const auto& known : architectures())
    if (known.name == architecture) return &known;
  return nullptr;
}

const Architecture* of_type(const std::string& model_type) {
  for (const auto& known : architectures())
    if (!known.model_type.empty() && known.model_type == model_type) return &known;
  return nullptr;
}

std::string text_of(const ConfigFields& fields, const json& value, const std::string& name) {
  if (!value.is_string()) fields.refuse(name, concat("must name a class, got ", value.dump().substr(0, 60)));
  return value.get<std::string>();
}

std::vector<std::string> present(const json& object, const std::vector<std::string>& names, bool wanted) {
  std::vector<std::string> found;
  for (const auto& name : names)
    if ((object.is_object() && object.contains(name) && !object.at(name).is_null()) == wanted)
      found.push_back(name);
  return found;
}

std::string listed(const std::vector<std::string>& names) {
  if (names.empty()) return "none";
  std::string text;
  for (const auto& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

const json& object_at(const json& config, const TowerReader& reader) {
  const json* object = &config;
  for (const auto& key : reader.path) {
    if (!object->is_object() || !object->contains(key)) return reader.loose ? config : *object;
    object = &object->at(key);
  }
  return *object;
}

// Whose fields a file of no known architecture has: the one of a near name, else the one of whose needs it
// has most and then lacks fewest.
const Architecture& likeliest(const json& config, const std::string& name) {
  if (const auto* known = named(nearest_name(name, known_architectures()))) return *known;
  auto fit = [&](const Architecture& known) {
    const auto& own = known.towers.front();
    auto has = int64_t(present(object_at(config, own), own.needs, true).size());
    return std::pair(has, has - int64_t(own.needs.size()));
  };
  return *std::max_element(architectures().begin(), architectures().end(),
                           [&](const auto& a, const auto& b) { return fit(a) < fit(b); });
}

[[noreturn]] void refuse_unknown(const json& config, const ConfigFields& fields, const std::string& what,
                                 const std::string& name) {
  const auto& like = likeliest(config, name);
  const auto& own = like.towers.front();
  const auto& object = object_at(config, own);
  auto has = present(object, own.needs, true);
  if (has.empty()) fields.refuse(what + "; it has no field that says a size of any of these");
  fields.refuse(concat(what, "; of the fields that ", like.name, " needs it has ", listed(has), " and lacks ",
                       listed(present(object, own.needs, false))));
}

const Architecture& architecture_of(const json& config, const ConfigFields& fields) {
  std::string name;
  if (fields.has("architectures")) {
    const auto& list = config.at("architectures");
    if (!list.is_array() || list.size() != 1)
      fields.refuse("architectures", "must be a list of one class, as [\"Qwen3ForCausalLM\"]");
    name = text_of(fields, list.front(), "architectures");
  } else if (fields.has("_class_name")) {
    name = text_of(fields, config.at("_class_name"), "_class_name");
  }
  if (const auto* known = named(name)) return *known;
  std::string type;
  if (fields.has("model_type")) type = text_of(fields, config.at("model_type"), "model_type");
  const auto* same_type = of_type(type);
  if (name.empty() && same_type) return *same_type;
  if (name.empty() && type.empty())
    refuse_unknown(config, fields,
                   concat("names no model in architectures, _class_name or model_type; known: ",
                          listed(known_architectures())),
                   "");
  if (name.empty()) {
    std::vector<std::string> types;
    for (const auto& known : architectures())
      if (!known.model_type.empty()) types.push_back(known.model_type);
    refuse_unknown(config, fields, unknown_name("model_type", escaped(type), types), "");
  }
  auto what = unknown_name("architecture", escaped(name), known_architectures());
  if (same_type)
    what += concat("; its model_type is that of ", same_type->name, ", so architectures: [\"",
                   same_type->name, "\"] counts it as that");
  refuse_unknown(config, fields, what, same_type ? same_type->name : name);
}

const TowerReader& reader_of(const Architecture& architecture, const ConfigFields& fields, Tower tower) {
  if (tower == Tower::whole) return architecture.towers.front();
  std::vector<std::string> known;
  for (const auto& reader : architecture.towers) {
    if (reader.tower == tower) return reader;
    known.emplace_back(name(reader.tower));
  }
  fields.refuse(concat(architecture.name, " has no part '", name(tower), "'; it has ", listed(known)));
}

ConfigFields fields_of(const ConfigFields& root, const TowerReader& reader) {
  if (reader.loose && !root.has(reader.path.front())) return root;
  ConfigFields fields = root;
  for (const auto& key : reader.path) fields = fields.section(key);
  return fields;
}

void check_size(const Model& model, const ConfigFields& fields) {
  double sum = 0;
  for (const auto& layer : model.layers)
    for (const auto& part : layer.parts)
      if (part.kind == PartKind::linear || part.kind == PartKind::embedding)
        sum += double(part.in) * double(part.out) * double(std::max<int64_t>(part.experts, 1));
  if (sum > kMostParameters)
    fields.refuse(concat("its sizes make ", sum, " parameters; ", kMostParameters, " is the most"));
}

std::string name_of(const std::string& source) {
  std::filesystem::path path(source);
  return path.stem() == "config" && path.has_parent_path() ? path.parent_path().filename() : path.stem();
}

}  // namespace

std::string_view name(Tower tower) {
  constexpr std::string_view names[] = {"whole", "text", "vision", "audio"};
  return names[size_t(tower)];
}

Tower tower_from_name(std::string_view text) {
  std::vector<std::string> known;
  for (auto tower : kTowers) {
    if (name(tower) == text) return tower;
    known.emplace_back(name(tower));
  }
  throw InvalidInput(unknown_name("part of a model", text, known));
}

Model model_from(const json& config, const std::string& source, Tower tower) {
  ConfigFields root(config, source);
  const auto& architecture = architecture_of(config, root);
  const auto& reader = reader_of(architecture, root, tower);
  auto fields = fields_of(root, reader);
  fields.need(reader.needs, architecture.name);
  bool tied = root.flag_or("tie_word_embeddings", fields.flag_or("tie_word_embeddings", false));
  Model model = reader.read(fields, tied);
  model.name = name_of(source);
  check_size(model, root);
  return model;
}

Model read_model(std::string_view text, const std::string& source, Tower tower) {
  if (text.size() > kMostConfigBytes)
    throw InvalidInput(
        concat("[model] ", source, ": has ", text.size(), " bytes, more than ", kMostConfigBytes));
  return model_from(parse_config(text, source), source, tower);
}

Model read_model_file(const std::string& path, Tower tower) {
  return read_model(read_config_file(path, kMostConfigBytes), path, tower);
}

bool has_vision(const json& config) {
  if (!config.is_object()) return false;
  auto holds = [](const json& object) {
    auto found = object.find("vision_config");
    return found != object.end() && found->is_object();
  };
  auto thinker = config.find("thinker_config");
  return holds(config) || (thinker != config.end() && thinker->is_object() && holds(*thinker));
}

std::vector<std::string> known_architectures() {
  std::vector<std::string> names;
  for (const auto& known : architectures()) names.push_back(known.name);
  return names;
}

}  // namespace bigmac::cost
