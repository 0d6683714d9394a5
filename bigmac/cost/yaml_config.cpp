#include "bigmac/cost/yaml_config.h"

#include <yaml-cpp/yaml.h>

#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

#include "bigmac/common/error.h"
#include "bigmac/formats/in_quotes.h"

namespace bigmac::cost {
namespace {

using nlohmann::json;

template <class Number>
bool parses(std::string_view text, Number& number) {
  if (text.size() > 1 && text.front() == '+' && text[1] != '-') text.remove_prefix(1);
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc{} && end == text.data() + text.size();
}

json plain_scalar(const std::string& text) {
  if (text.empty() || text == "~" || text == "null" || text == "Null" || text == "NULL") return nullptr;
  if (text == "true" || text == "True" || text == "TRUE") return true;
  if (text == "false" || text == "False" || text == "FALSE") return false;
  int64_t whole = 0;
  if (parses(text, whole)) return whole;
  double real = 0;
  bool number_like = text.find_first_of("0123456789") != text.npos;
  if (number_like && parses(text, real) && std::isfinite(real)) return real;
  return text;
}

class Converter {
 public:
  explicit Converter(const std::string& source) : source_(source) {}

  json convert(const YAML::Node& node, int depth = 0) {
    // Aliases make small texts unfold into huge or endless trees.
    if (depth > kMostDepth) refuse(node, concat("is nested deeper than ", kMostDepth, " levels"));
    if (++nodes_ > kMostNodes) refuse(node, concat("holds more than ", kMostNodes, " values"));
    switch (node.Type()) {
      case YAML::NodeType::Scalar:
        return node.Tag() == "?" || node.Tag().empty() ? plain_scalar(node.Scalar()) : json(node.Scalar());
      case YAML::NodeType::Sequence: {
        json array = json::array();
        for (const auto& element : node) array.push_back(convert(element, depth + 1));
        return array;
      }
      case YAML::NodeType::Map:
        return mapping(node, depth);
      case YAML::NodeType::Null:
      case YAML::NodeType::Undefined:
        return nullptr;
    }
    return nullptr;
  }

 private:
  static constexpr int kMostDepth = 64;
  static constexpr int64_t kMostNodes = 1 << 20;

  json mapping(const YAML::Node& node, int depth) {
    json object = json::object();
    for (const auto& entry : node) {
      if (!entry.first.IsScalar()) refuse(entry.first, "has a key that is no text");
      const auto& key = entry.first.Scalar();
      if (object.contains(key)) refuse(entry.first, concat("has the key ", in_quotes(key), " twice"));
      object[key] = convert(entry.second, depth + 1);
    }
    return object;
  }

  [[noreturn]] void refuse(const YAML::Node& node, const std::string& what) const {
    throw InvalidInput(
        concat("[model] ", source_, ":", node.Mark().line + 1, ":", node.Mark().column + 1, ": ", what));
  }

  const std::string& source_;
  int64_t nodes_ = 0;
};

}  // namespace

json parse_yaml(std::string_view text, const std::string& source) {
  try {
    return Converter(source).convert(YAML::Load(std::string(text)));
  } catch (const YAML::Exception& error) {
    throw InvalidInput(concat("[model] ", source, ":", error.mark.line + 1, ":", error.mark.column + 1,
                              ": is no YAML: ", error.msg));
  }
}

}  // namespace bigmac::cost
