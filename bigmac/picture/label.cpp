#include "bigmac/picture/label.h"

#include <algorithm>
#include <cstdint>
#include <numeric>

namespace bigmac {
namespace {

constexpr std::string_view kEllipsis = "\xE2\x80\xA6";

bool begins_character(char byte) {
  return (static_cast<unsigned char>(byte) & 0xc0u) != 0x80u;
}

// East Asian characters and emoji are about as wide as high; of a lead byte at or above E3 (U+3000).
double advance(char lead) {
  auto byte = static_cast<unsigned char>(lead);
  if (byte >= 0xe3) return 1.0;
  if (byte >= 'A' && byte <= 'Z') return 0.7;
  return byte == ' ' || byte == '.' || byte == ',' ? 0.33 : 0.61;
}

bool overlap(const Area& a, const Area& b) {
  return a.x < b.x + b.width && b.x < a.x + a.width && a.y < b.y + b.height && b.y < a.y + a.height;
}

// Clips the segment to the area (Liang and Barsky 1984).
bool crosses(const Place& a, const Place& b, const Area& area) {
  double enter = 0, leave = 1;
  auto clip = [&](double from, double delta, double low, double high) {
    if (delta == 0) return from >= low && from <= high;
    double first = (low - from) / delta, second = (high - from) / delta;
    enter = std::max(enter, std::min(first, second));
    leave = std::min(leave, std::max(first, second));
    return enter <= leave;
  };
  return clip(a.x, b.x - a.x, area.x, area.x + area.width) &&
         clip(a.y, b.y - a.y, area.y, area.y + area.height);
}

int hits(const Area& area, const Obstacles& obstacles) {
  int count = 0;
  for (const auto& line : obstacles.lines)
    for (size_t n = 0; n < line.size(); ++n) count += crosses(line[n == 0 ? 0 : n - 1], line[n], area);
  for (const auto& other : obstacles.areas) count += 2 * overlap(area, other);
  return count;
}

bool inside(const Area& area, const Area& bounds) {
  return area.x >= bounds.x && area.y >= bounds.y && area.x + area.width <= bounds.x + bounds.width &&
         area.y + area.height <= bounds.y + bounds.height;
}

}  // namespace

double text_width(std::string_view text, int size) {
  double width = 0;
  for (char byte : text)
    if (begins_character(byte)) width += advance(byte);
  return width * size;
}

std::string fitted(std::string_view text, double width, int size) {
  if (text_width(text, size) <= width) return std::string(text);
  double used = size;  // of the ellipsis
  size_t end = 0;
  for (size_t at = 0; at < text.size(); ++at) {
    if (!begins_character(text[at])) continue;
    end = at;
    used += advance(text[at]) * size;
    if (used > width) break;
  }
  return std::string(text.substr(0, end)).append(kEllipsis);
}

// Isotonic regression of wanted[i] - i * gap by pooling what stands out of order.
std::vector<double> spread_apart(const std::vector<double>& wanted, double gap, double low, double high) {
  auto count = double(wanted.size());
  if ((count - 1) * gap > high - low) return {};
  std::vector<size_t> order(wanted.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return wanted[a] < wanted[b]; });
  struct Pool {
    double sum = 0;
    double count = 0;
    double mean() const { return sum / count; }
  };
  std::vector<Pool> pools;
  for (size_t n = 0; n < order.size(); ++n) {
    pools.push_back({wanted[order[n]] - double(n) * gap, 1});
    while (pools.size() > 1 && pools[pools.size() - 2].mean() > pools.back().mean()) {
      auto last = pools.back();
      pools.pop_back();
      pools.back().sum += last.sum;
      pools.back().count += last.count;
    }
  }
  std::vector<double> places(wanted.size());
  size_t n = 0;
  for (const auto& pool : pools)
    for (double end = double(n) + pool.count; double(n) < end; ++n)
      places[order[n]] = std::clamp(pool.mean(), low, high - (count - 1) * gap) + double(n) * gap;
  return places;
}

Area least_crowded(const std::vector<Area>& candidates, const Area& bounds, const Obstacles& obstacles) {
  Area best = candidates.front();
  int fewest = INT32_MAX;
  for (const auto& candidate : candidates) {
    int count = hits(candidate, obstacles) + (inside(candidate, bounds) ? 0 : 1 << 20);
    if (count < fewest) {
      fewest = count;
      best = candidate;
    }
  }
  return best;
}

}  // namespace bigmac
