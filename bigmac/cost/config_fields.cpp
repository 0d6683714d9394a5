#include "bigmac/cost/config_fields.h"

#include <algorithm>
#include <utility>

#include "bigmac/common/error.h"
#include "bigmac/common/names.h"
#include "bigmac/formats/in_quotes.h"

namespace bigmac::cost {
namespace {

using nlohmann::json;

std::string shown(const json& value) {
  if (value.is_object()) return "an object";
  if (value.is_array()) return "a list";
  if (value.is_string()) return in_quotes(value.get_ref<const std::string&>());
  return value.dump();
}

// Names that published files use beside a field's own.
std::string other_name(const std::string& name) {
  if (name == "num_experts") return "num_local_experts";
  if (name == "in_channels") return "in_chans";
  return name;
}

// Whole numbers of JSON beyond int64_t come as unsigned ones.
bool is_whole(const json& value, int64_t least, int64_t most) {
  if (value.is_number_unsigned())
    return value.get<uint64_t>() <= uint64_t(most) && int64_t(value.get<uint64_t>()) >= least;
  return value.is_number_integer() && value.get<int64_t>() >= least && value.get<int64_t>() <= most;
}

}  // namespace

ConfigFields::ConfigFields(const json& object, std::string source, std::string path)
    : object_(&object), source_(std::move(source)), path_(std::move(path)) {
  if (object.is_object()) return;
  auto name = path_.substr(0, path_.empty() ? 0 : path_.size() - 1);
  throw InvalidInput(concat("[model] ", source_, ": ", name.empty() ? "a configuration" : name,
                            " must be an object, got ", shown(object)));
}

const json* ConfigFields::find(const std::string& name) const {
  for (const auto& written : {name, other_name(name)})
    if (auto found = object_->find(written); found != object_->end() && !found->is_null()) return &*found;
  return nullptr;
}

bool ConfigFields::has(const std::string& name) const {
  return find(name) != nullptr;
}

void ConfigFields::need(const std::vector<std::string>& names, const std::string& architecture) const {
  std::vector<std::string> present;
  for (const auto& [key, value] : object_->items())
    if (std::find(names.begin(), names.end(), key) == names.end()) present.push_back(key);
  std::string missing;
  for (const auto& name : names) {
    if (has(name)) continue;
    missing += concat(missing.empty() ? " " : ", ", path_, name);
    if (object_->contains(name))
      missing += " (it is null)";
    else if (auto nearest = nearest_name(name, present); !nearest.empty())
      missing += concat(" (it has '", escaped(nearest), "')");
  }
  if (!missing.empty()) refuse(concat("lacks what ", architecture, " needs:", missing));
}

int64_t ConfigFields::whole(const std::string& name, int64_t most, int64_t least) const {
  const auto& value = at(name);
  if (!is_whole(value, least, most))
    refuse(name, concat("must be a whole number from ", least, " to ", most, ", got ", shown(value)));
  return value.get<int64_t>();
}

int64_t ConfigFields::whole_or(const std::string& name, int64_t fallback, int64_t most, int64_t least) const {
  return has(name) ? whole(name, most, least) : fallback;
}

bool ConfigFields::flag_or(const std::string& name, bool fallback) const {
  if (!has(name)) return fallback;
  const auto& value = at(name);
  if (!value.is_boolean()) refuse(name, concat("must be true or false, got ", shown(value)));
  return value.get<bool>();
}

std::vector<int64_t> ConfigFields::indexes_or(const std::string& name, std::vector<int64_t> fallback,
                                              int64_t most) const {
  if (!has(name)) {
    std::erase_if(fallback, [&](int64_t index) { return index > most; });
    return fallback;
  }
  const auto& value = at(name);
  auto legal = concat("must be a list of different whole numbers from 0 to ", most);
  if (!value.is_array()) refuse(name, concat(legal, ", got ", shown(value)));
  std::vector<int64_t> indexes;
  for (const auto& element : value) {
    bool twice = is_whole(element, 0, most) &&
                 std::find(indexes.begin(), indexes.end(), element.get<int64_t>()) != indexes.end();
    if (twice || !is_whole(element, 0, most))
      refuse(name, concat(legal, ", got ", shown(element), twice ? " twice" : ""));
    indexes.push_back(element.get<int64_t>());
  }
  return indexes;
}

ConfigFields ConfigFields::section(const std::string& name) const {
  return {at(name), source_, path_ + name + "."};
}

void ConfigFields::refuse(const std::string& what) const {
  throw InvalidInput(concat("[model] ", source_, ": ", what));
}

void ConfigFields::refuse(const std::string& name, const std::string& what) const {
  refuse(concat(path_, name, " ", what));
}

void ConfigFields::check_divides(const std::string& part, int64_t part_value, const std::string& all,
                                 int64_t all_value) const {
  if (all_value % part_value != 0)
    refuse(concat(path_, part, " ", part_value, " must divide ", path_, all, " ", all_value));
}

const json& ConfigFields::at(const std::string& name) const {
  const auto* found = find(name);
  if (!found) refuse(concat("lacks ", path_, name));
  return *found;
}

}  // namespace bigmac::cost
