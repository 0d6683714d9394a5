#include "bigmac/timeline/trace_rows.h"

#include <algorithm>

#include "bigmac/common/error.h"

namespace bigmac {

std::vector<ShownRow> shown_rows(const Timeline& timeline, const TraceOptions& options) {
  double from = options.from.value_or(0), to = options.to.value_or(timeline.length());
  if (!(from >= 0 && from < to && to <= timeline.length()) && (options.from || options.to))
    throw InvalidInput(
        concat("[trace] from ", from, " to ", to, " is no part of a step of ", timeline.length()));
  from += timeline.start;
  to += timeline.start;
  std::vector<ShownRow> rows;
  size_t count = 0;
  for (const auto& row : timeline.rows) {
    auto begin = row.operators.begin(), end = row.operators.end();
    auto first = options.from
                     ? std::partition_point(begin, end, [&](const Slice& s) { return s.end <= from; })
                     : begin;
    auto last =
        options.to ? std::partition_point(first, end, [&](const Slice& s) { return s.start < to; }) : end;
    auto stop = size_t(last - begin);
    rows.push_back({size_t(first - begin), stop, stop, stop});
    count += stop - rows.back().first;
  }
  if (options.most <= 0 || count <= size_t(options.most)) return rows;
  size_t half = size_t(options.most) / rows.size() / 2;
  for (auto& row : rows) {
    if (row.last - row.first <= 2 * half + kMerged) continue;
    row.merged = row.first + half;
    row.single = row.last - half;
  }
  return rows;
}

}  // namespace bigmac
