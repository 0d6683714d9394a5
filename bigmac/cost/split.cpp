#include "bigmac/cost/split.h"

#include <algorithm>
#include <cmath>
#include <iomanip>
#include <limits>
#include <optional>
#include <sstream>
#include <string>

#include "bigmac/common/error.h"

namespace bigmac::cost {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kSame = 1e-9;       // of the slowest stage
constexpr double kRounding = 1e-12;  // of sums

std::string bytes_text(double bytes) {
  constexpr double kMiB = 1024.0 * 1024, kGiB = 1024 * kMiB;
  std::ostringstream out;
  if (bytes >= kGiB)
    out << std::fixed << std::setprecision(1) << bytes / kGiB << " GiB";
  else if (bytes >= kMiB)
    out << std::fixed << std::setprecision(1) << bytes / kMiB << " MiB";
  else
    out << bytes << " bytes";
  return out.str();
}

void check_figures(std::string_view what, std::string_view place, const std::vector<double>& figures,
                   bool infinite = false) {
  for (size_t i = 0; i < figures.size(); ++i)
    if (!(figures[i] >= 0) || (!infinite && std::isinf(figures[i])))
      throw InvalidInput(concat("[split] ", what, " of ", place, " ", i, " must be at least 0",
                                infinite ? "" : " and finite", ", got ", figures[i]));
}

void check_length(std::string_view what, std::string_view place, const std::vector<double>& figures,
                  int64_t expected) {
  if (!figures.empty() && int64_t(figures.size()) != expected)
    throw InvalidInput(
        concat("[split] ", what, " has ", figures.size(), " values for ", expected, " ", place));
}

void check(const SplitCosts& costs, int64_t stages) {
  auto layers = int64_t(costs.times.size());
  if (layers == 0) throw InvalidInput("[split] the model has no layers");
  if (stages < 1) throw InvalidInput(concat("[split] stages must be at least 1, got ", stages));
  if (stages > layers && !costs.empty_stages)
    throw InvalidInput(concat("[split] ", stages, " stages for ", layers,
                              " layers: each must hold a layer, so at most ", layers,
                              " stages are possible"));
  check_length("extra", "stages", costs.extra, stages);
  check_length("bytes", "layers", costs.bytes, layers);
  check_length("extra bytes", "stages", costs.extra_bytes, stages);
  if (costs.most_bytes.size() != 1) check_length("most bytes", "stages", costs.most_bytes, stages);
  if (!costs.most_bytes.empty() && costs.bytes.empty() && !costs.held)
    throw InvalidInput("[split] limits are given, but no bytes of layers");
  check_figures("time", "layer", costs.times);
  check_figures("extra time", "stage", costs.extra);
  check_figures("bytes", "layer", costs.bytes);
  check_figures("most bytes", "stage", costs.most_bytes, true);
  check_figures("extra bytes", "stage", costs.extra_bytes);
}

// Of the first i values, at i; zeros where there are none.
std::vector<double> sums(std::string_view what, const std::vector<double>& values, size_t size) {
  std::vector<double> all(size + 1, 0.0);
  for (size_t i = 0; i < values.size(); ++i) all[i + 1] = all[i] + values[i];
  if (std::isinf(all.back())) throw InvalidInput(concat("[split] ", what, " add up to infinity"));
  return all;
}

// Layers begin..end-1 on a stage.
struct Problem {
  explicit Problem(const SplitCosts& given, int64_t stage_count)
      : costs(given),
        layers(int64_t(given.times.size())),
        stages(stage_count),
        least(given.empty_stages ? 0 : 1),
        times(sums("times", given.times, given.times.size())),
        bytes(sums("bytes", given.bytes, given.times.size())) {}

  // Where a stage's layers can begin, so that those before and behind can hold theirs.
  int64_t first(int64_t stage) const { return stage * least; }
  int64_t last(int64_t stage) const { return stage == 0 ? 0 : layers - (stages - stage) * least; }

  double extra(int64_t stage) const { return costs.extra.empty() ? 0 : costs.extra[size_t(stage)]; }
  double time(int64_t begin, int64_t end, int64_t stage) const {
    return times[size_t(end)] - times[size_t(begin)] + extra(stage);
  }
  double held(int64_t begin, int64_t end, int64_t stage) const {
    if (costs.held) return costs.held(stage, begin, end);
    return bytes[size_t(end)] - bytes[size_t(begin)] +
           (costs.extra_bytes.empty() ? 0 : costs.extra_bytes[size_t(stage)]);
  }
  double limit(int64_t stage) const {
    if (costs.most_bytes.empty()) return kInfinity;
    return costs.most_bytes[costs.most_bytes.size() == 1 ? 0 : size_t(stage)];
  }
  bool fits(int64_t begin, int64_t end, int64_t stage) const {
    return held(begin, end, stage) <= limit(stage) * (1 + kRounding);
  }

  const SplitCosts& costs;
  int64_t layers, stages, least;
  std::vector<double> times, bytes;
};

// The fastest that the slowest stage can be; infinite where no split fits.
double least_slowest(const Problem& problem) {
  auto size = size_t(problem.layers) + 1;
  std::vector<double> next(size, kInfinity), here(size);
  next.back() = 0;
  for (int64_t stage = problem.stages; stage-- > 0; std::swap(next, here)) {
    std::fill(here.begin(), here.end(), kInfinity);
    for (int64_t begin = problem.first(stage); begin <= problem.last(stage); ++begin) {
      double best = kInfinity;
      for (int64_t end = begin + problem.least; end <= problem.layers; ++end) {
        double time = problem.time(begin, end, stage);
        if (time >= best || !problem.fits(begin, end, stage)) break;
        best = std::min(best, std::max(time, next[size_t(end)]));
      }
      here[size_t(begin)] = best;
    }
  }
  return next.front();
}

// The most even split among those with no stage slower than `slowest`, in units of which the squares are.
Split most_even(const Problem& problem, double slowest) {
  double unit = slowest > 0 ? slowest : 1;
  auto size = size_t(problem.layers) + 1;
  std::vector<double> next(size, kInfinity), here(size);
  std::vector<int64_t> ends(size * size_t(problem.stages), 0);
  next.back() = 0;
  for (int64_t stage = problem.stages; stage-- > 0; std::swap(next, here)) {
    std::fill(here.begin(), here.end(), kInfinity);
    for (int64_t begin = problem.first(stage); begin <= problem.last(stage); ++begin) {
      double best = kInfinity;
      for (int64_t end = begin + problem.least; end <= problem.layers; ++end) {
        double time = problem.time(begin, end, stage) / unit;
        if (time > 1 + kSame || time * time >= best || !problem.fits(begin, end, stage)) break;
        double sum = time * time + next[size_t(end)];
        if (sum >= best * (1 - kRounding)) continue;
        best = sum;
        ends[size_t(stage) * size + size_t(begin)] = end;
      }
      here[size_t(begin)] = best;
    }
  }
  Split split;
  for (int64_t stage = 0, begin = 0; stage < problem.stages; ++stage) {
    int64_t end = ends[size_t(stage) * size + size_t(begin)];
    split.push_back(end - begin);
    begin = end;
  }
  return split;
}

// For a problem that no split solves: the first stage at which every way has ended, and the least that it
// would have to hold.
[[noreturn]] void fail_at_limits(const Problem& problem) {
  std::vector<bool> reached(size_t(problem.layers) + 1, false);
  reached[0] = true;
  for (int64_t stage = 0;; ++stage) {
    bool final_stage = stage + 1 == problem.stages;
    std::vector<bool> next(reached.size(), false);
    double needed = kInfinity;
    int64_t from = 0, to = 0;
    for (int64_t begin = problem.first(stage); begin <= problem.last(stage); ++begin) {
      if (!reached[size_t(begin)]) continue;
      int64_t least = final_stage ? problem.layers : begin + problem.least;
      if (double held = problem.held(begin, least, stage); held < needed)
        needed = held, from = begin, to = least;
      for (int64_t end = least; end <= problem.layers && problem.fits(begin, end, stage); ++end)
        next[size_t(end)] = true;
    }
    reached = std::move(next);
    if (std::find(reached.begin(), reached.end(), true) != reached.end() && !final_stage) continue;
    auto what = from == to       ? std::string("beside its layers")
                : from + 1 == to ? concat("with layer ", from)
                                 : concat("with layers ", from, " to ", to - 1);
    throw InvalidInput(concat("[split] no split keeps to the limits: stage ", stage, " would hold ",
                              bytes_text(needed), " ", what, ", its limit is ",
                              bytes_text(problem.limit(stage))));
  }
}

}  // namespace

Split balanced_split(const SplitCosts& costs, int64_t stages) {
  check(costs, stages);
  Problem problem(costs, stages);
  double slowest = least_slowest(problem);
  if (std::isinf(slowest) && costs.most_bytes.empty()) throw InvalidInput("[split] times add up to infinity");
  if (std::isinf(slowest)) fail_at_limits(problem);
  return most_even(problem, slowest);
}

Split split_of(const Layout& layout, int64_t decoder_layers, int64_t mtp_layers) {
  check_layout(layout, decoder_layers, mtp_layers);
  Split split;
  for (const auto& stage : layout.stages)
    split.push_back(int64_t(stage.embedding) + stage.layers + stage.mtp + int64_t(stage.loss));
  return split;
}

}  // namespace bigmac::cost
