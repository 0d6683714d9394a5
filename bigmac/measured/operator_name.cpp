#include "bigmac/measured/operator_name.h"

#include <algorithm>
#include <charconv>
#include <string>

namespace bigmac {
namespace {

constexpr size_t kLongestName = 80;

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

std::optional<Phase> phase_of(std::string_view word) {
  constexpr std::pair<std::string_view, Phase> kWords[] = {
      {"f", Phase::forward},    {"fwd", Phase::forward},  {"forward", Phase::forward},
      {"b", Phase::backward},   {"bwd", Phase::backward}, {"backward", Phase::backward},
      {"i", Phase::input},      {"dgrad", Phase::input},  {"w", Phase::weight},
      {"wgrad", Phase::weight},
  };
  for (const auto& [known, phase] : kWords)
    if (word == known) return phase;
  return {};
}

// Words, numbers and what stands between them.
class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  bool at_end() const { return text_.empty(); }
  void skip_separators() {
    auto is_separator = [](char c) { return c == ' ' || c == '_' || c == '-' || c == '.' || c == ':'; };
    while (!text_.empty() && is_separator(text_.front())) text_.remove_prefix(1);
  }
  // Lower case; empty where something else comes next.
  std::string word() {
    std::string word;
    while (!text_.empty() && is_letter(text_.front())) {
      word += char(text_.front() | 0x20);
      text_.remove_prefix(1);
    }
    return word;
  }
  std::optional<int64_t> number() {
    int64_t number = 0;
    auto [end, error] = std::from_chars(text_.data(), text_.data() + text_.size(), number);
    if (text_.empty() || !is_digit(text_.front()) || error != std::errc() || number > INT32_MAX) return {};
    text_.remove_prefix(size_t(end - text_.data()));
    return number;
  }
  bool take(std::string_view prefix) {
    if (!text_.starts_with(prefix)) return false;
    text_.remove_prefix(prefix.size());
    return true;
  }

 private:
  std::string_view text_;
};

// 2F3
std::optional<OperatorName> parse_action(Reader reader) {
  auto stage = reader.number();
  auto word = reader.word();
  auto microbatch = reader.number();
  if (!stage || word.size() != 1 || !microbatch || !reader.at_end()) return {};
  auto phase = phase_of(word);
  return phase ? std::optional(OperatorName{*phase, *stage, -1, *microbatch}) : std::nullopt;
}

// A phase, then words and numbers.
std::optional<OperatorName> parse_words(Reader reader) {
  auto phase = phase_of(reader.word());
  if (!phase) return {};
  OperatorName found{*phase, -1, -1, -1};
  int64_t* named = nullptr;  // what the next number is
  int64_t plain[2] = {-1, -1};
  int plain_count = 0;
  bool says_what = false;
  for (reader.skip_separators(); !reader.at_end(); reader.skip_separators()) {
    if (auto number = reader.number()) {
      if (named != nullptr)
        *named = *number;
      else if (plain_count == 2)
        return {};
      else
        plain[plain_count++] = *number;
      named = nullptr;
      continue;
    }
    auto word = reader.word();
    if (named != nullptr) return {};
    if (word == "step" || word == "compute" || word == "pass")
      says_what = true;
    else if (word == "microbatch" || word == "mb")
      named = &found.microbatch;
    else if (word == "chunk")
      named = &found.chunk;
    else if (word == "stage")
      named = &found.stage;
    else
      return {};
  }
  if (named != nullptr) return {};
  if (plain_count == 2) {
    if (found.chunk >= 0 || found.microbatch >= 0) return {};
    found.chunk = plain[0];
    found.microbatch = plain[1];
  } else if (plain_count == 1) {
    if (found.microbatch >= 0) return {};
    found.microbatch = plain[0];
  }
  return found.microbatch >= 0 || says_what ? std::optional(found) : std::nullopt;
}

}  // namespace

std::optional<OperatorName> parse_operator_name(std::string_view name) {
  constexpr std::string_view kMegatron = "pipeline_parallel/schedules.py(";
  if (auto at = name.find(kMegatron); at != std::string_view::npos) {
    auto colon = name.rfind(": ");
    if (colon == std::string_view::npos || colon < at) return {};
    auto function = name.substr(colon + 2);
    if (function == "forward_step") return OperatorName{Phase::forward};
    if (function == "backward_step") return OperatorName{Phase::backward};
    return {};
  }
  if (name.empty() || name.size() > kLongestName) return {};
  Reader reader(name);
  reader.take("PP:");
  if (is_digit(name.front()) || name.starts_with("PP:")) return parse_action(reader);
  return parse_words(reader);
}

}  // namespace bigmac
