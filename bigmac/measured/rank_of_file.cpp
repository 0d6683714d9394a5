#include "bigmac/measured/rank_of_file.h"

#include <algorithm>
#include <filesystem>

namespace bigmac {
namespace {

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

std::optional<int64_t> number_at(const std::string& text, size_t at) {
  int64_t number = 0;
  size_t begin = at;
  for (; at < text.size() && is_digit(text[at]); ++at) {
    number = number * 10 + (text[at] - '0');
    if (number > INT32_MAX) return {};
  }
  return at > begin ? std::optional(number) : std::nullopt;
}

}  // namespace

std::optional<int64_t> rank_of_file(const std::string& path) {
  auto name = std::filesystem::path(path).filename().string();
  std::transform(name.begin(), name.end(), name.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? char(c | 0x20) : c; });
  if (auto at = name.rfind("rank"); at != std::string::npos) {
    at += 4;
    while (at < name.size() && (name[at] == '_' || name[at] == '-' || name[at] == '.')) ++at;
    if (auto number = number_at(name, at)) return number;
  }
  auto last = name.find_last_of("0123456789");
  if (last == std::string::npos) return {};
  while (last > 0 && is_digit(name[last - 1])) --last;
  return number_at(name, last);
}

}  // namespace bigmac
