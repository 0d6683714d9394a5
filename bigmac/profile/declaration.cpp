#include "bigmac/profile/declaration.h"

#include <nlohmann/json.hpp>

#include "bigmac/common/error.h"

namespace bigmac {
namespace {

using Json = nlohmann::ordered_json;

int32_t count_of(const Json& json, const char* key, int64_t least) {
  auto number = json.at(key).get<int64_t>();
  if (number < least || number > INT32_MAX)
    throw InvalidInput(concat("\"", key, "\" is ", number, "; right would be ", least, " or more"));
  return int32_t(number);
}

}  // namespace

std::string to_declaration(const Profiled& of) {
  Json json{{"rank", of.rank}, {"ranks", of.ranks}, {"chunks", of.chunks}};
  json["modules"] = Json::array();
  for (const auto& module : of.modules)
    json["modules"].push_back(
        {{"name", module.name}, {"kind", name(module.kind)}, {"trained", module.trained}});
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Profiled from_declaration(std::string_view text) try {
  auto json = Json::parse(text);
  Profiled of{count_of(json, "rank", 0), count_of(json, "ranks", 1), count_of(json, "chunks", 1)};
  for (const auto& module : json.at("modules"))
    of.modules.push_back({module.at("name").get<std::string>(),
                          module_from_name(module.at("kind").get<std::string>()),
                          module.at("trained").get<bool>()});
  return of;
} catch (const Json::exception& error) {
  throw InvalidInput(concat("its declaration is none: ", error.what()));
}

}  // namespace bigmac
