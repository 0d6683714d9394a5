#pragma once

#include <cstdint>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace bigmac {

// Facts as JSON, and columns of numbers behind them, in one string of bytes:
//
//   4 bytes    length of the JSON, little-endian
//   JSON       an object with the facts, and "columns": [[name, type, count], ...]
//   columns    in that order; type u1 (a byte), u4, i4 or f4 (four bytes). Of a column of four bytes all
//              first (lowest) bytes stand first, then all second ones, and so on, since alike bytes that
//              stand together compress better
class ColumnFile {
 public:
  void add(std::string_view name, const std::vector<uint8_t>& values) {
    declare(name, "u1", values.size());
    bytes_.append(reinterpret_cast<const char*>(values.data()), values.size());
  }
  void add(std::string_view name, const std::vector<uint32_t>& values) { add_four(name, "u4", values); }
  void add(std::string_view name, const std::vector<int32_t>& values) { add_four(name, "i4", values); }
  void add(std::string_view name, const std::vector<float>& values) { add_four(name, "f4", values); }
  void add_text(std::string_view name, std::string_view text) {
    declare(name, "u1", text.size());
    bytes_.append(text);
  }

  // Text that is not UTF-8 is replaced by U+FFFD.
  std::string finish(nlohmann::ordered_json facts) const {
    facts["columns"] = columns_;
    auto json = facts.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
    std::string file;
    file.reserve(4 + json.size() + bytes_.size());
    for (int byte = 0; byte < 4; ++byte) file += char(json.size() >> (8 * byte));
    return file + json + bytes_;
  }

 private:
  void declare(std::string_view name, std::string_view type, size_t count) {
    columns_.push_back({name, type, count});
  }

  template <class Value>
  void add_four(std::string_view name, std::string_view type, const std::vector<Value>& values) {
    static_assert(sizeof(Value) == 4);
    declare(name, type, values.size());
    size_t count = values.size(), begin = bytes_.size();
    bytes_.resize(begin + 4 * count);
    for (size_t i = 0; i < count; ++i) {
      uint32_t bits = 0;
      std::memcpy(&bits, &values[i], 4);
      for (size_t byte = 0; byte < 4; ++byte) bytes_[begin + byte * count + i] = char(bits >> (8 * byte));
    }
  }

  nlohmann::ordered_json columns_ = nlohmann::ordered_json::array();
  std::string bytes_;
};

}  // namespace bigmac
