#pragma once

#include <yaml-cpp/yaml.h>

#include <string>
#include <vector>

#include "bigmac/common/error.h"
#include "bigmac/common/names.h"

namespace bigmac::train {

// A mapping of a YAML file, read strictly: every key must be asked for. Errors name file, line and column.
class YamlSection {
 public:
  YamlSection(const YAML::Node& node, std::string file, std::string name)
      : node_(node), file_(std::move(file)), name_(std::move(name)) {
    if (node_.IsDefined() && !node_.IsNull() && !node_.IsMap())
      throw InvalidInput(concat(where(node_), name_, " must be a mapping"));
  }

  template <class Value>
  void read(const std::string& key, Value& value) {
    known_.push_back(key);
    auto node = child(key);
    if (!node.IsDefined()) return;
    try {
      value = node.as<Value>();
    } catch (const YAML::Exception&) {
      auto text = node.IsScalar() ? concat("'", node.Scalar(), "'") : std::string("a list or mapping");
      throw InvalidInput(concat(where(node), full(key), " must be ", kind(value), ", got ", text));
    }
  }

  // As above, through a function of the text that throws InvalidInput.
  template <class Value, class Parse>
  void read(const std::string& key, Value& value, Parse&& parse) {
    std::string text;
    read(key, text);
    if (text.empty()) return;
    try {
      value = parse(text);
    } catch (const InvalidInput& error) {
      throw InvalidInput(concat(where(child(key)), full(key), ": ", error.what()));
    }
  }

  YamlSection section(const std::string& key) {
    known_.push_back(key);
    return {child(key), file_, full(key)};
  }

  // Throws for the first key that was not asked for.
  void done() const {
    if (!node_.IsDefined() || !node_.IsMap()) return;
    for (const auto& entry : node_) {
      auto key = entry.first.as<std::string>();
      if (std::find(known_.begin(), known_.end(), key) == known_.end())
        throw InvalidInput(
            concat(where(entry.first), unknown_name(name_.empty() ? "key" : "key of " + name_, key, known_)));
    }
  }

 private:
  YAML::Node child(const std::string& key) const {
    const YAML::Node& node = node_;
    return node.IsDefined() && node.IsMap() ? node[key] : YAML::Node(YAML::NodeType::Undefined);
  }
  std::string where(const YAML::Node& node) const {
    return concat(file_, ":", node.Mark().line + 1, ":", node.Mark().column + 1, ": ");
  }
  std::string full(const std::string& key) const { return name_.empty() ? key : name_ + "." + key; }

  static const char* kind(bool) { return "true or false"; }
  static const char* kind(double) { return "a number"; }
  static const char* kind(int64_t) { return "a whole number"; }
  static const char* kind(uint64_t) { return "a whole number of at least 0"; }
  static const char* kind(const std::string&) { return "a text"; }

  YAML::Node node_;
  std::string file_;
  std::string name_;
  std::vector<std::string> known_;
};

}  // namespace bigmac::train
