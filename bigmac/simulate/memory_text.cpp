#include <cmath>
#include <cstdio>

#include "bigmac/common/error.h"
#include "bigmac/simulate/memory.h"

namespace bigmac {
namespace {

constexpr size_t kLargestHolders = 5;

}  // namespace

std::string bytes_text(double bytes) {
  if (std::round(bytes) < 1024) return concat(std::round(bytes), std::round(bytes) == 1 ? " byte" : " bytes");
  constexpr const char* kUnits[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  constexpr size_t kMost = std::size(kUnits) - 1;
  size_t unit = 0;
  double value = bytes / 1024;
  while (value >= 1023.5 && unit < kMost) {
    value /= 1024;
    ++unit;
  }
  int decimals = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
  char text[48];
  std::snprintf(text, sizeof(text), "%.*f %s", decimals, value, kUnits[unit]);
  return text;
}

std::string explain_out_of_memory(const Schedule& schedule, const Timeline& timeline, const Bytes& bytes,
                                  double limit, std::string_view unit) {
  if (!std::isfinite(limit) || limit < 0)
    throw InvalidInput(concat("[memory] the limit must be a finite number of at least 0, got ", limit));
  auto ranks = peak_memory(schedule, timeline, bytes);
  int worst = 0;
  for (int rank = 1; rank < int(ranks.size()); ++rank)
    if (ranks[rank].peak > ranks[worst].peak) worst = rank;
  const RankMemory& memory = ranks[worst];
  if (memory.peak <= limit) return "";
  double first = memory.peak_time;
  for (const auto& point : memory_over_time(schedule, timeline, bytes, worst)) {
    if (point.bytes <= limit) continue;
    first = point.time;
    break;
  }
  std::string where = "between operators";
  for (const auto& slice : timeline.rows[worst].operators)
    if (slice.start <= first && first < slice.end) where = "in " + describe(schedule, slice.op);
  auto text = concat("out of memory on rank ", worst, ": ", bytes_text(memory.peak), " of ",
                     bytes_text(limit), ", first at ", first, unit, " ", where);
  auto holders = holders_at(schedule, timeline, bytes, worst, memory.peak_time);
  if (holders.size() > kLargestHolders) holders.resize(kLargestHolders);
  size_t width = 0;
  for (const auto& holder : holders) width = std::max(width, bytes_text(holder.bytes).size());
  for (const auto& holder : holders) {
    auto size = bytes_text(holder.bytes);
    text += "\n  " + std::string(width - size.size(), ' ') + size + "  " + holder.what;
  }
  return text + "\n";
}

}  // namespace bigmac
