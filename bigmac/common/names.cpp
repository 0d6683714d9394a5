#include "bigmac/common/names.h"

#include <algorithm>
#include <numeric>

#include "bigmac/common/error.h"

namespace bigmac {
namespace {

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      size_t substituted = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substituted});
    }
  }
  return row.back();
}

}  // namespace

std::string nearest_name(std::string_view name, const std::vector<std::string>& candidates) {
  std::string nearest;
  size_t allowed = std::max<size_t>(2, name.size() / 3);
  for (const auto& candidate : candidates) {
    size_t distance = edit_distance(name, candidate);
    if (distance < candidate.size() && distance <= allowed) {
      nearest = candidate;
      allowed = distance == 0 ? 0 : distance - 1;
    }
  }
  return nearest;
}

std::string unknown_name(std::string_view what, std::string_view name,
                         const std::vector<std::string>& candidates) {
  std::string text = concat("unknown ", what, " '", name, "'");
  if (auto nearest = nearest_name(name, candidates); !nearest.empty())
    text += concat(" (did you mean '", nearest, "'?)");
  text += "; known:";
  for (size_t i = 0; i < candidates.size(); ++i) text += (i == 0 ? " " : ", ") + candidates[i];
  return text;
}

}  // namespace bigmac
