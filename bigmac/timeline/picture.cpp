#include "bigmac/timeline/picture.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <locale>
#include <sstream>

#include "bigmac/common/error.h"
#include "bigmac/common/svg.h"
#include "bigmac/schedule/labels.h"
#include "bigmac/timeline/explain.h"

namespace bigmac {
namespace {

constexpr double kWidth = 1200, kLeft = 64, kTop = 44, kRow = 26, kGap = 4, kLegend = 56, kAxis = 18,
                 kRight = 12;

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

constexpr double kNarrow = 0.8;  // pixels
constexpr const char *kTransfer = "#8c8c8c", *kOrder = "#bfbfbf", *kIdle = "#f2f2f2";

// 1, 2 or 5 times a power of ten, so that about ten fit.
double tick_of(double length) {
  double power = std::pow(10, std::floor(std::log10(length / 10)));
  for (double tick : {1.0, 2.0, 5.0})
    if (length / (tick * power) <= 10) return tick * power;
  return 10 * power;
}

std::string number_text(double value) {
  std::ostringstream out;
  out.imbue(std::locale::classic());
  out << value;
  return out.str();
}

class Drawing {
 public:
  Drawing(const Schedule& schedule, const Timeline& timeline, bool measured, const PictureOptions& options)
      : schedule_(schedule),
        timeline_(timeline),
        measured_(measured),
        labels_(schedule_),
        width_(options.width),
        height_(kTop + double(timeline_.rows.size()) * (kRow + kGap) + kAxis + kLegend),
        from_(timeline_.start + options.from.value_or(0)),
        to_(options.to ? timeline_.start + *options.to : timeline_.end),
        svg_(width_, height_) {
    bool whole = !options.from && !options.to;
    if (!whole && !(from_ >= timeline_.start && from_ < to_ && to_ <= timeline_.end))
      throw InvalidInput(concat("[picture] from ", from_ - timeline_.start, " to ", to_ - timeline_.start,
                                " is no part of a step of ", timeline_.length()));
    scale_ = to_ > from_ ? (width_ - kLeft - kRight) / (to_ - from_) : 0;
    svg_.text(kLeft, 26, options.title, "start", 15);
    for (size_t rank = 0; rank < timeline_.rows.size(); ++rank) draw_row(rank);
    if (options.critical_path) draw_path();
    draw_axis();
    draw_legend(options.critical_path);
  }
  std::string finish() { return svg_.finish(); }

 private:
  struct Part {
    std::string_view fill;
    double opacity, width;
  };

  double x_of(double time) const { return kLeft + (time - from_) * scale_; }
  double y_of(size_t rank) const { return kTop + double(rank) * (kRow + kGap); }
  bool is_seen(double start, double end) const { return end > from_ && start < to_; }

  void draw_row(size_t rank) {
    double y = y_of(rank);
    svg_.text(kLeft - 8, y + kRow * 0.68, concat("rank ", rank), "end");
    svg_.box(kLeft, y, width_ - kLeft - kRight, kRow, kIdle);
    for (const auto& interval : timeline_.rows[rank].intervals) {
      if (interval.spent == Spent::wait || !is_seen(interval.start, interval.end)) continue;
      bool transfer = interval.spent == Spent::transfer;
      (transfer ? transfers_ : orders_) = true;
      run(x_of(std::max(interval.start, from_)), x_of(std::min(interval.end, to_)), y,
          transfer ? kTransfer : kOrder, 1);
    }
    flush(y);
    for (const auto& [op, start, end] : timeline_.rows[rank].operators) {
      if (!is_seen(start, end)) continue;
      double x = x_of(std::max(start, from_)), width = x_of(std::min(end, to_)) - x;
      const auto& look = kLooks[look_of(op)];
      seen_[look_of(op)] = true;
      // A later chunk of a rank is drawn fainter, so that the passes through the model can be told apart.
      run(x, x + width, y, look.fill, op.chunk == 0 ? 1 : 0.72);
      auto label = labels_.number(op);
      if (width > 7.0 * double(label.size()) + 2) {
        flush(y);
        svg_.text(x + width / 2, y + kRow * 0.68, label, "middle", 11);
      }
    }
    flush(y);
  }

  // What is narrower than a pixel shares the pixel that it starts in, which shows what takes most of it.
  void run(double start, double end, double y, std::string_view fill, double opacity) {
    if (end - start >= kNarrow) {
      flush(y);
      svg_.box(start, y, std::max(end - start - 0.6, 0.2), kRow, fill, opacity);
      return;
    }
    if (std::floor(start) != pixel_) flush(y);
    pixel_ = std::floor(start);
    auto same = [&](const Part& part) { return part.fill == fill && part.opacity == opacity; };
    auto found = std::find_if(parts_.begin(), parts_.end(), same);
    if (found == parts_.end())
      parts_.push_back({fill, opacity, end - start});
    else
      found->width += end - start;
  }
  void flush(double y) {
    if (parts_.empty()) return;
    double width = 0;
    for (const auto& part : parts_) width += part.width;
    auto most = std::max_element(parts_.begin(), parts_.end(),
                                 [](const Part& a, const Part& b) { return a.width < b.width; });
    svg_.box(pixel_, y, std::clamp(width, 0.2, 1.0), kRow, most->fill, most->opacity);
    parts_.clear();
  }

  void draw_path() {
    for (const auto& [rank, slice, cause, gap] : critical_path(schedule_, timeline_)) {
      if (!is_seen(slice.start, slice.end)) continue;
      double x = x_of(std::max(slice.start, from_)), width = x_of(std::min(slice.end, to_)) - x;
      svg_.element("rect",
                   concat("x=\"", number_text(x), "\" y=\"", number_text(y_of(size_t(rank)) + 1),
                          "\" width=\"", number_text(std::max(width - 0.6, 0.2)), "\" height=\"",
                          number_text(kRow - 2), "\" fill=\"none\" stroke=\"#000\" stroke-width=\"1.6\""));
    }
  }

  void draw_axis() {
    if (to_ <= from_) return;
    double y = y_of(timeline_.rows.size()) + 2, begin = from_ - timeline_.start, end = to_ - timeline_.start;
    bool in_ms = measured_ && to_ - from_ < 1;
    double unit = in_ms ? 1e-3 : 1, tick = tick_of((end - begin) / unit) * unit;
    for (auto n = int64_t(std::ceil(begin / tick - 1e-9)); double(n) * tick <= end * (1 + 1e-12); ++n) {
      double x = x_of(timeline_.start + double(n) * tick);
      svg_.line(x, y, x, y + 4, "stroke=\"#777\"");
      svg_.text(x, y + 16, number_text(double(n) * (tick / unit)), "middle", 10);
    }
    if (measured_) svg_.text(kLeft - 8, y + 16, in_ms ? "ms" : "s", "end", 10);
  }

  void draw_legend(bool path) {
    double x = kLeft, y = height_ - kLegend + 14;
    auto entry = [&](const char* fill, const char* text, double room) {
      svg_.box(x, y, 14, 14, fill);
      svg_.text(x + 20, y + 12, text);
      x += room;
    };
    for (size_t look = 0; look < kLooks.size(); ++look)
      if (seen_[look]) entry(kLooks[look].fill, kLooks[look].name, 140);
    if (transfers_) entry(kTransfer, "transfer", 90);
    if (orders_) entry(kOrder, "order of messages", 140);
    entry(kIdle, "idle", 0);
    svg_.text(kLeft, y + 32,
              concat("Numbers are microbatches, with u units; later chunks are fainter",
                     path ? "; the critical path is outlined" : ""),
              "start", 11, "fill=\"#555\"");
  }

  const Schedule& schedule_;
  const Timeline& timeline_;
  bool measured_;
  Labels labels_;
  double width_, height_, from_, to_, scale_ = 0;
  Svg svg_;
  std::array<bool, kLooks.size()> seen_{};
  bool transfers_ = false, orders_ = false;
  std::vector<Part> parts_;  // of the pixel
  double pixel_ = -1;
};

}  // namespace

std::string to_svg(const Recording& recording, const PictureOptions& options) {
  return Drawing(recording.schedule, recording.timeline, recording.measured, options).finish();
}

std::string to_svg(const Schedule& schedule, const Timeline& timeline, const std::string& title) {
  return Drawing(schedule, timeline, false, {.title = title}).finish();
}

}  // namespace bigmac
