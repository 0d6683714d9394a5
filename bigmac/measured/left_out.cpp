#include "bigmac/measured/left_out.h"

#include <algorithm>

#include "bigmac/common/error.h"

namespace bigmac {

void LeftOut::add(const std::string& what, const std::string& first) {
  auto at = std::find_if(kinds_.begin(), kinds_.end(), [&](const Kind& kind) { return kind.what == what; });
  if (at == kinds_.end()) at = kinds_.insert(kinds_.end(), {what, first});
  ++at->count;
}

int64_t LeftOut::count() const {
  int64_t count = 0;
  for (const auto& kind : kinds_) count += kind.count;
  return count;
}

std::vector<std::string> LeftOut::notes() const {
  std::vector<std::string> notes;
  notes.reserve(kinds_.size());
  for (const auto& [what, first, count] : kinds_)
    notes.push_back(concat(count, " ", what, "; the first: ", first));
  return notes;
}

}  // namespace bigmac
