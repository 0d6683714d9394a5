#include "bigmac/cost/config_text.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "bigmac/common/error.h"
#include "bigmac/common/read_file.h"
#include "bigmac/cost/yaml_config.h"
#include "bigmac/formats/in_quotes.h"

namespace bigmac::cost {
namespace {

constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
constexpr int kMostDepth = 64;

// "[model] file:line:column: " of a byte of the text.
std::string place(std::string_view text, size_t at, const std::string& source) {
  auto before = text.substr(0, std::min(at, text.size()));
  auto line = 1 + std::count(before.begin(), before.end(), '\n');
  return concat("[model] ", source, ":", line, ":", before.size() - (before.rfind('\n') + 1) + 1, ": ");
}

// Length of the UTF-8 sequence that begins at `at`, 0 where it is none (overlong forms and surrogates too).
size_t sequence_length(std::string_view text, size_t at) {
  auto byte = [&](size_t i) { return i < text.size() ? uint8_t(text[i]) : uint8_t{0}; };
  auto continues = [&](size_t i, uint8_t low = 0x80, uint8_t high = 0xbf) {
    return byte(i) >= low && byte(i) <= high;
  };
  uint8_t lead = byte(at);
  if (lead < 0x80) return 1;
  if (lead >= 0xc2 && lead <= 0xdf) return continues(at + 1) ? 2 : 0;
  if (lead >= 0xe0 && lead <= 0xef) {
    bool second = continues(at + 1, lead == 0xe0 ? 0xa0 : 0x80, lead == 0xed ? 0x9f : 0xbf);
    return second && continues(at + 2) ? 3 : 0;
  }
  if (lead >= 0xf0 && lead <= 0xf4) {
    bool second = continues(at + 1, lead == 0xf0 ? 0x90 : 0x80, lead == 0xf4 ? 0x8f : 0xbf);
    return second && continues(at + 2) && continues(at + 3) ? 4 : 0;
  }
  return 0;
}

void check_utf8(std::string_view text, const std::string& source) {
  for (size_t at = 0; at < text.size();) {
    size_t length = sequence_length(text, at);
    if (length == 0)
      throw InvalidInput(concat(place(text, at, source), "is not UTF-8 at ", in_quotes(text.substr(at, 4))));
    at += length;
  }
}

nlohmann::json parse_json(std::string_view text, const std::string& source) {
  using Event = nlohmann::json::parse_event_t;
  std::vector<std::set<std::string>> keys;  // of the objects that are open
  auto check_structure = [&](int depth, Event event, nlohmann::json& value) {
    if (depth > kMostDepth)
      throw InvalidInput(
          concat("[model] ", source, ": the JSON is nested deeper than ", kMostDepth, " levels"));
    if (event == Event::object_start) keys.emplace_back();
    if (event == Event::object_end) keys.pop_back();
    if (event == Event::key && !keys.back().insert(value.get<std::string>()).second)
      throw InvalidInput(concat("[model] ", source, ": the key ", in_quotes(value.get<std::string>()),
                                " stands there twice"));
    return true;
  };
  try {
    return nlohmann::json::parse(text, check_structure);
  } catch (const nlohmann::json::parse_error& error) {
    size_t at = error.byte > 0 ? error.byte - 1 : 0;
    if (at >= text.size()) throw InvalidInput(place(text, at, source) + "the JSON ends too early");
    size_t begin = at < 24 ? 0 : at - 24;
    throw InvalidInput(concat(place(text, at, source), "is no JSON at the end of ",
                              in_quotes(text.substr(begin, at + 1 - begin))));
  } catch (const nlohmann::json::out_of_range&) {
    throw InvalidInput(concat("[model] ", source, ": the JSON has too large a number"));
  }
}

}  // namespace

nlohmann::json parse_config(std::string_view text, const std::string& source) {
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  check_utf8(text, source);
  size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin == text.npos)
    throw InvalidInput(concat("[model] ", source, ": is empty; right would be a model's config.json"));
  auto config =
      text[begin] == '{' || text[begin] == '[' ? parse_json(text, source) : parse_yaml(text, source);
  if (!config.is_object())
    throw InvalidInput(concat("[model] ", source, ": must be a JSON object or a YAML mapping, begins with ",
                              in_quotes(text.substr(begin, 20))));
  return config;
}

std::string read_config_file(const std::string& path, size_t most_bytes) {
  try {
    return read_file(path, most_bytes, "its config.json");
  } catch (const InvalidInput& error) {
    throw InvalidInput(concat("[model] ", error.what()));
  }
}

}  // namespace bigmac::cost
