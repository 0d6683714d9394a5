#include "bigmac/controls/controls_json.h"

#include "bigmac/common/error.h"
#include "bigmac/common/names.h"

namespace bigmac {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kLongestTime = 1e12;
constexpr size_t kMostBytes = 10'000;

// Of a value that is not what it should be, enough to find it.
std::string shown(const Json& value) {
  auto text = value.dump(-1, ' ', true, Json::error_handler_t::replace);
  return text.size() <= 60 ? text : text.substr(0, 57) + "...";
}

// Reads the fields of an object one by one and complains about those that nobody asked for.
class Fields {
 public:
  Fields(const Json& object, std::string where) : object_(object), where_(std::move(where)) {
    if (!object.is_object())
      throw InvalidInput(concat("[controls] ", where_, "must be an object, got ", shown(object)));
  }

  void count(const std::string& field, int64_t least, int64_t& number) {
    const Json* value = find(field);
    if (!value) return;
    if (!value->is_number_integer() || *value < least || *value > kMostOperators)
      throw wrong(field, concat("a whole number from ", least, " to ", kMostOperators), *value);
    number = value->get<int64_t>();
  }
  void time(const std::string& field, double& number) {
    const Json* value = find(field);
    if (!value) return;
    if (!value->is_number() || !(*value >= 0) || !(*value <= kLongestTime))
      throw wrong(field, concat("a number from 0 to ", kLongestTime), *value);
    number = value->get<double>();
  }
  void time(const std::string& field, std::optional<double>& number) {
    const Json* value = find(field);
    if (!value || value->is_null()) return;
    time(field, number.emplace());
  }
  template <class Named, class Read>
  void named(const std::string& field, Named& choice, Read&& read) {
    const Json* value = find(field);
    if (!value || value->is_null()) return;
    if (!value->is_string()) throw wrong(field, "a name", *value);
    choice = read(value->get<std::string>());
  }
  const Json* find(const std::string& field) {
    known_.push_back(field);
    auto found = object_.find(field);
    return found == object_.end() ? nullptr : &*found;
  }
  void no_others() const {
    for (const auto& [field, value] : object_.items())
      if (std::find(known_.begin(), known_.end(), field) == known_.end())
        throw InvalidInput(concat("[controls] ", where_, unknown_name("field", field, known_)));
  }

 private:
  InvalidInput wrong(const std::string& field, const std::string& legal, const Json& got) const {
    return InvalidInput(concat("[controls] ", where_, field, " must be ", legal, ", got ", shown(got)));
  }

  const Json& object_;
  std::string where_;
  std::vector<std::string> known_;
};

Json module_json(const ControlledModule& module) {
  return {{"forward", module.forward}, {"backward", module.backward}, {"items", module.items}};
}

void read_module(Fields& fields, const std::string& field, ControlledModule& module) {
  const Json* value = fields.find(field);
  if (!value) return;
  Fields own(*value, field + ": ");
  own.time("forward", module.forward);
  own.time("backward", module.backward);
  own.count("items", 1, module.items);
  own.no_others();
}

Json parsed(std::string_view text) {
  if (text.size() > kMostBytes)
    throw InvalidInput(
        concat("[controls] ", text.size(), " bytes are too many; right would be at most ", kMostBytes));
  try {
    return Json::parse(text);
  } catch (const Json::parse_error& error) {
    throw InvalidInput(concat("[controls] no JSON: at byte ", error.byte, " of ", text.size()));
  }
}

}  // namespace

Json to_json(const Controls& controls) {
  Json base = controls.base ? Json(name(*controls.base)) : Json();
  Json weight = controls.weight ? Json(*controls.weight) : Json();
  return {{"pp", controls.ranks},
          {"vpp", controls.chunks},
          {"microbatches", controls.microbatches},
          {"base", base},
          {"group", controls.group},
          {"schedule", name(controls.arrangement)},
          {"warmup_units", controls.warmup_units},
          {"generator_unit", controls.generator_unit},
          {"forward", controls.forward},
          {"backward", controls.backward},
          {"weight", weight},
          {"latency", controls.latency},
          {"encoder", module_json(controls.encoder)},
          {"generator", module_json(controls.generator)}};
}

Controls controls_from_json(std::string_view text) {
  auto json = parsed(text);
  Controls controls;
  Fields fields(json, "");
  fields.count("pp", 1, controls.ranks);
  fields.count("vpp", 1, controls.chunks);
  fields.count("microbatches", 1, controls.microbatches);
  fields.named("base", controls.base, made_base_from_name);
  fields.count("group", 0, controls.group);
  fields.named("schedule", controls.arrangement, arrangement_from_name);
  fields.count("warmup_units", 0, controls.warmup_units);
  fields.count("generator_unit", 0, controls.generator_unit);
  fields.time("forward", controls.forward);
  fields.time("backward", controls.backward);
  fields.time("weight", controls.weight);
  fields.time("latency", controls.latency);
  read_module(fields, "encoder", controls.encoder);
  read_module(fields, "generator", controls.generator);
  fields.no_others();
  return controls;
}

}  // namespace bigmac
