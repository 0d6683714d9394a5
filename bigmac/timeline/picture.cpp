#include "bigmac/timeline/picture.h"

#include <array>

#include "bigmac/common/error.h"
#include "bigmac/common/svg.h"
#include "bigmac/schedule/labels.h"

namespace bigmac {
namespace {

constexpr double kWidth = 1200, kLeft = 64, kTop = 44, kRow = 26, kGap = 4, kLegend = 40, kRight = 12;

struct Look {
  const char* name;
  const char* fill;
};
constexpr std::array<Look, 6> kLooks{{{"LLM forward", "#56b4e9"},
                                      {"LLM backward", "#009e73"},
                                      {"encoder forward", "#f0e442"},
                                      {"encoder backward", "#e69f00"},
                                      {"generator", "#cc79a7"},
                                      {"LLM weight gradient", "#0072b2"}}};

size_t look_of(const Operator& op) {
  if (op.module == Module::generator) return 4;
  if (op.phase == Phase::weight) return 5;
  return (op.module == Module::encoder ? 2 : 0) + (op.phase == Phase::forward ? 0 : 1);
}

}  // namespace

std::string to_svg(const Schedule& schedule, const Timeline& timeline, const std::string& title) {
  auto ranks = double(timeline.rows.size());
  double height = kTop + ranks * (kRow + kGap) + kLegend;
  double scale = timeline.length() > 0 ? (kWidth - kLeft - kRight) / timeline.length() : 0;
  Labels labels(schedule);
  Svg svg(kWidth, height);
  svg.text(kLeft, 26, title, "start", 15);
  std::array<bool, kLooks.size()> seen{};
  for (size_t rank = 0; rank < timeline.rows.size(); ++rank) {
    double y = kTop + double(rank) * (kRow + kGap);
    svg.text(kLeft - 8, y + kRow * 0.68, concat("rank ", rank), "end");
    svg.box(kLeft, y, kWidth - kLeft - kRight, kRow, "#f2f2f2");
    for (const auto& [op, start, end] : timeline.rows[rank].operators) {
      double x = kLeft + (start - timeline.start) * scale, width = (end - start) * scale;
      seen[look_of(op)] = true;
      // A later chunk of a rank is drawn fainter, so that the passes through the model can be told apart.
      svg.box(x, y, std::max(width - 0.6, 0.2), kRow, kLooks[look_of(op)].fill, op.chunk == 0 ? 1 : 0.72);
      auto label = labels.number(op);
      if (width > 7.0 * double(label.size()) + 2)
        svg.text(x + width / 2, y + kRow * 0.68, label, "middle", 11);
    }
  }
  double x = kLeft, y = height - kLegend + 14;
  for (size_t look = 0; look < kLooks.size(); ++look) {
    if (!seen[look]) continue;
    svg.box(x, y, 14, 14, kLooks[look].fill);
    svg.text(x + 20, y + 12, kLooks[look].name);
    x += 140;
  }
  svg.box(x, y, 14, 14, "#f2f2f2");
  svg.text(x + 20, y + 12, "idle (numbers: microbatches, u: units; fainter: later chunks)");
  return svg.finish();
}

}  // namespace bigmac
