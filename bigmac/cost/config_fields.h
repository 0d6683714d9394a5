#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace bigmac::cost {

inline constexpr int64_t kMostWidth = int64_t{1} << 18;  // of a layer; of an MLP four times that

// An object of a configuration, its fields read with their type and range checked. A field that is null
// counts as missing. Errors are InvalidInput: "[model] file: text_config.hidden_size must be ...".
class ConfigFields {
 public:
  // `path` of the object in its file, with a dot behind it, or "".
  ConfigFields(const nlohmann::json& object, std::string source, std::string path = "");

  bool has(const std::string& name) const;
  // Throws where any is missing, naming all that are, with the nearest name that is there instead.
  void need(const std::vector<std::string>& names, const std::string& architecture) const;

  int64_t whole(const std::string& name, int64_t most, int64_t least = 1) const;
  int64_t whole_or(const std::string& name, int64_t fallback, int64_t most, int64_t least = 1) const;
  bool flag_or(const std::string& name, bool fallback) const;
  // Distinct whole numbers from 0 to `most`.
  std::vector<int64_t> indexes_or(const std::string& name, std::vector<int64_t> fallback, int64_t most) const;
  ConfigFields section(const std::string& name) const;

  // "[model] file: " + what, and "[model] file: path.name " + what
  [[noreturn]] void refuse(const std::string& what) const;
  [[noreturn]] void refuse(const std::string& name, const std::string& what) const;
  // Throws where `part` does not divide `all`.
  void check_divides(const std::string& part, int64_t part_value, const std::string& all,
                     int64_t all_value) const;

 private:
  const nlohmann::json* find(const std::string& name) const;
  const nlohmann::json& at(const std::string& name) const;

  const nlohmann::json* object_;
  std::string source_, path_;
};

}  // namespace bigmac::cost
