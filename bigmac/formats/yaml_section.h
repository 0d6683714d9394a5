#pragma once

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "bigmac/common/error.h"
#include "bigmac/common/names.h"

namespace bigmac {

// Throws InvalidInput as "file:line:column: ..." for malformed YAML.
inline YAML::Node load_yaml(const std::string& text, const std::string& file) {
  try {
    return YAML::Load(text);
  } catch (const YAML::Exception& error) {
    throw InvalidInput(concat(file, ":", error.mark.line + 1, ":", error.mark.column + 1, ": ", error.msg));
  }
}

// A mapping of a YAML file, read strictly: every key must be asked for. Errors are InvalidInput as
// "file:line:column: ...". For programs that link yaml-cpp.
class YamlSection {
 public:
  YamlSection(const YAML::Node& node, std::string file, std::string name)
      : node_(node), file_(std::move(file)), name_(std::move(name)) {
    if (node_.IsDefined() && !node_.IsNull() && !node_.IsMap())
      throw InvalidInput(concat(where(node_), name_.empty() ? "the file" : name_, " must be a mapping"));
  }

  const std::string& name() const { return name_; }
  bool has(const std::string& key) const { return child(key).IsDefined() && !child(key).IsNull(); }
  // done() throws where the key is missing.
  YamlSection& need(const std::string& key) {
    known_.push_back(key);
    if (!has(key)) missing_.push_back(key);
    return *this;
  }

  // Leaves the value where the key is missing.
  template <class Value>
  void read(const std::string& key, Value& value) {
    known_.push_back(key);
    auto node = child(key);
    if (!node.IsDefined()) return;
    convert(node, full(key), value);
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
      refuse(key, concat(": ", error.what()));
    }
  }

  // A list of distinct values, each through such a function; one value stands for a list of it. Throws where
  // it is empty.
  template <class Value, class Parse>
  void read_list(const std::string& key, std::vector<Value>& values, Parse&& parse) {
    known_.push_back(key);
    auto node = child(key);
    if (!node.IsDefined()) return;
    if (node.IsMap() || node.IsNull()) refuse(key, " must be a list");
    values.clear();
    for (const auto& element : elements(key)) {
      std::string text;
      convert(element, full(key), text);
      try {
        values.push_back(parse(text));
      } catch (const InvalidInput& error) {
        throw InvalidInput(concat(where(element), full(key), ": ", error.what()));
      }
      if (std::find(values.begin(), values.end() - 1, values.back()) != values.end() - 1)
        throw InvalidInput(concat(where(element), full(key), " has '", text, "' twice"));
    }
  }

  YamlSection section(const std::string& key) {
    known_.push_back(key);
    return {child(key), file_, full(key)};
  }

  // The mappings of a list, named "key[0]" and so on; none where the key is missing.
  std::vector<YamlSection> sections(const std::string& key) {
    known_.push_back(key);
    std::vector<YamlSection> all;
    if (!has(key)) return all;
    if (!child(key).IsSequence()) refuse(key, " must be a list of mappings");
    for (const auto& element : child(key)) {
      all.emplace_back(element, file_, concat(full(key), "[", all.size(), "]"));
      if (!element.IsMap()) all.back().refuse("must be a mapping");
    }
    return all;
  }

  // A list's elements, or the one value that stands for it. Throws where it is empty.
  std::vector<YAML::Node> elements(const std::string& key) {
    known_.push_back(key);
    auto node = child(key);
    if (!node.IsDefined()) return {};
    if (!node.IsSequence()) return {node};
    std::vector<YAML::Node> all(node.begin(), node.end());
    if (all.empty()) refuse(key, " must name at least one value, got an empty list");
    return all;
  }

  YAML::Node node(const std::string& key) {
    known_.push_back(key);
    return child(key);
  }

  // Throws "file:line:column: section.key" + what, at the key's value (or the section, where there is none).
  [[noreturn]] void refuse(const std::string& key, const std::string& what) const {
    auto node = child(key);
    throw InvalidInput(concat(where(node.IsDefined() ? node : node_), full(key), what));
  }
  // Throws "file:line:column: section " + what.
  [[noreturn]] void refuse(const std::string& what) const {
    throw InvalidInput(concat(where(node_), name_, name_.empty() ? "" : " ", what));
  }
  std::string where(const YAML::Node& node) const {
    if (!node.IsDefined() || node.Mark().line < 0) return file_ + ": ";
    return concat(file_, ":", node.Mark().line + 1, ":", node.Mark().column + 1, ": ");
  }

  // Throws for the first key that was not asked for or stands there twice, and for keys that are needed.
  void done() const {
    if (node_.IsDefined() && node_.IsMap()) {
      std::set<std::string> seen;
      auto of_name = name_.empty() ? "" : " of " + name_;
      for (const auto& entry : node_) {
        if (!entry.first.IsScalar())
          throw InvalidInput(concat(where(entry.first), "a key", of_name, " must be a text"));
        const auto& key = entry.first.Scalar();
        if (std::find(known_.begin(), known_.end(), key) == known_.end())
          throw InvalidInput(
              concat(where(entry.first), unknown_name("key" + of_name, key, distinct(known_))));
        if (!seen.insert(key).second)
          throw InvalidInput(
              concat(where(entry.first), "the key '", key, "'", of_name, " stands there twice"));
      }
    }
    if (!missing_.empty())
      throw InvalidInput(
          concat(where(node_), name_.empty() ? "the file" : name_, " needs the key '", missing_[0], "'"));
  }

 private:
  YAML::Node child(const std::string& key) const {
    const YAML::Node& node = node_;
    return node.IsDefined() && node.IsMap() ? node[key] : YAML::Node(YAML::NodeType::Undefined);
  }
  std::string full(const std::string& key) const { return name_.empty() ? key : name_ + "." + key; }

  template <class Value>
  void convert(const YAML::Node& node, const std::string& what, Value& value) const {
    try {
      if (node.IsNull()) throw YAML::Exception(node.Mark(), "nothing");
      value = node.as<Value>();
    } catch (const YAML::Exception&) {
      auto text = node.IsScalar() ? concat("'", node.Scalar(), "'")
                                  : std::string(node.IsNull() ? "nothing" : "a list or mapping");
      throw InvalidInput(concat(where(node), what, " must be ", kind(value), ", got ", text));
    }
  }

  static std::vector<std::string> distinct(const std::vector<std::string>& names) {
    std::vector<std::string> all;
    for (const auto& name : names)
      if (std::find(all.begin(), all.end(), name) == all.end()) all.push_back(name);
    return all;
  }

  static const char* kind(bool) { return "true or false"; }
  static const char* kind(double) { return "a number"; }
  static const char* kind(int64_t) { return "a whole number"; }
  static const char* kind(uint64_t) { return "a whole number of at least 0"; }
  static const char* kind(const std::string&) { return "a text"; }

  YAML::Node node_;
  std::string file_;
  std::string name_;
  std::vector<std::string> known_;
  std::vector<std::string> missing_;
};

}  // namespace bigmac
