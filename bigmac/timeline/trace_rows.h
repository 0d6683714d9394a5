#pragma once

#include <vector>

#include "bigmac/timeline/timeline.h"
#include "bigmac/timeline/trace.h"

namespace bigmac {

// Which of a row's operators a trace shows: those from `first` to `last`, one by one but for those from
// `merged` to `single`, of which kMerged at a time are one event.
struct ShownRow {
  size_t first = 0, merged = 0, single = 0, last = 0;

  size_t merged_count() const { return single - merged; }
};
inline constexpr size_t kMerged = 64;

// By rank, for TraceOptions::from, to and most. Throws InvalidInput for a part that is none.
std::vector<ShownRow> shown_rows(const Timeline& timeline, const TraceOptions& options);

}  // namespace bigmac
