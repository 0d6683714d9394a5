#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "bigmac/formats/yaml_section.h"

namespace bigmac::train {

// One description of a YAML file for both ways: describe(file, value) calls field(), named() and section() on
// a YamlReader, which reads strictly, or on a YamlWriter.
class YamlReader {
 public:
  explicit YamlReader(YamlSection section) : section_(std::move(section)) {}

  template <class Value>
  void field(const char* key, Value& value) {
    section_.read(key, value);
  }
  template <class Value>
  void field(const char* key, std::optional<Value>& value) {
    if (!section_.has(key)) return static_cast<void>(section_.node(key));
    section_.read(key, value.emplace());
  }
  // Values by name: parse(text), name(value).
  template <class Value, class Parse, class Name>
  void named(const char* key, Value& value, Parse parse, Name) {
    section_.read(key, value, parse);
  }
  void list(const char* key, std::vector<std::string>& values) {
    section_.read_list(key, values, [](const std::string& text) { return text; });
  }
  void list(const char* key, std::vector<int64_t>& values) {
    if (!section_.has(key)) return static_cast<void>(section_.node(key));
    values.clear();
    for (const auto& element : section_.elements(key)) try {
        values.push_back(element.as<int64_t>());
      } catch (const YAML::Exception&) {
        section_.refuse(key, " must be a list of whole numbers");
      }
  }
  template <class Fields>
  void section(const char* key, Fields&& fields) {
    YamlReader inner(section_.section(key));
    fields(inner);
    inner.done();
  }
  // A section that need not be there.
  template <class Value, class Fields>
  void optional(const char* key, std::optional<Value>& value, Fields&& fields) {
    if (!section_.node(key).IsDefined()) return;
    if (!value) value.emplace();
    section(key, [&](auto& inner) { fields(inner, *value); });
  }
  // A mapping whose keys are names of their own.
  template <class Value, class Fields>
  void mapping(const char* key, std::map<std::string, Value>& values, Fields&& fields) {
    auto inner = section_.section(key);
    for (const auto& entry : section_.node(key)) {
      auto name = entry.first.as<std::string>();
      YamlReader of_name(inner.section(name));
      fields(of_name, values[name]);
      of_name.done();
    }
    inner.done();
  }
  void done() const { section_.done(); }

 private:
  YamlSection section_;
};

class YamlWriter {
 public:
  YamlWriter() {
    out_.SetDoublePrecision(17);
    out_ << YAML::BeginMap;
  }
  template <class Value>
  void field(const char* key, const Value& value) {
    out_ << YAML::Key << key << YAML::Value << value;
  }
  template <class Value>
  void field(const char* key, const std::optional<Value>& value) {
    if (value) field(key, *value);
  }
  template <class Value, class Parse, class Name>
  void named(const char* key, const Value& value, Parse, Name name) {
    out_ << YAML::Key << key << YAML::Value << std::string(name(value));
  }
  template <class Value, class Parse, class Name>
  void named(const char* key, const std::optional<Value>& value, Parse parse, Name name) {
    if (value) named(key, *value, parse, name);
  }
  template <class Value>
  void list(const char* key, const std::vector<Value>& values) {
    if (!values.empty()) out_ << YAML::Key << key << YAML::Value << YAML::Flow << values;
  }
  template <class Fields>
  void section(const char* key, Fields&& fields) {
    out_ << YAML::Key << key << YAML::Value << YAML::BeginMap;
    fields(*this);
    out_ << YAML::EndMap;
  }
  template <class Value, class Fields>
  void optional(const char* key, std::optional<Value>& value, Fields&& fields) {
    if (value) section(key, [&](auto& inner) { fields(inner, *value); });
  }
  template <class Value, class Fields>
  void mapping(const char* key, std::map<std::string, Value>& values, Fields&& fields) {
    if (values.empty()) return;
    section(key, [&](auto& file) {
      for (auto& [name, value] : values)
        file.section(name.c_str(), [&](auto& inner) { fields(inner, value); });
    });
  }
  std::string text() {
    out_ << YAML::EndMap;
    return std::string(out_.c_str()) + "\n";
  }

 private:
  YAML::Emitter out_;
};

}  // namespace bigmac::train
