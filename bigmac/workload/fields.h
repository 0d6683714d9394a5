#pragma once

#include <string>

#include "bigmac/formats/units.h"
#include "bigmac/formats/yaml_section.h"

namespace bigmac {

// Throws InvalidInput "file:line:column: section.key must be ..., got 3" unless `fits`.
template <class Value>
void check(const YamlSection& section, const std::string& key, bool fits, const std::string& must,
           const Value& got) {
  if (!fits) section.refuse(key, concat(" ", must, ", got ", got));
}

// A whole number of at least 1, such as 8192 or 8K.
template <class Value>
void read_count(YamlSection& section, const std::string& key, Value& value, double most = 9e15) {
  section.read(key, value, [](const std::string& text) { return Value(count_from(text)); });
  if (section.has(key))
    check(section, key, value >= 1 && double(value) <= most, concat("must be from 1 to ", int64_t(most)),
          value);
}

// A figure with a unit, above 0.
template <class Parse>
void read_above_zero(YamlSection& section, const std::string& key, double& value, Parse parse) {
  section.read(key, value, parse);
  if (section.has(key)) check(section, key, value > 0, "must be above 0", value);
}

}  // namespace bigmac
