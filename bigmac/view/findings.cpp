#include "bigmac/view/findings.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <numeric>

#include "bigmac/schedule/dependencies.h"

namespace bigmac {
namespace {

constexpr double kWorthSaying = 0.005;  // of all ranks' time

using ByKind = std::array<double, kWaitKinds>;

ByKind sum_of(const std::vector<NamedWait>& waits) {
  ByKind sums{};
  for (const auto& [wait, kind] : waits) sums[size_t(kind)] += wait.length();
  return sums;
}

const char* words(WaitKind kind) {
  switch (kind) {
    case WaitKind::drain:
      return "its row being done before the step is";
    case WaitKind::order:
      return "messages that stood behind others in their queue";
    case WaitKind::transfer:
      return "moving bytes";
    case WaitKind::exchange:
      return "exchanges with ranks that came late to them";
    case WaitKind::host:
      return "time between operators with nothing missing";
    case WaitKind::link:
      return "messages that were on their way";
    case WaitKind::encoder:
      return "late encoders";
    case WaitKind::generator:
      return "late generators";
    case WaitKind::fill:
      return "the pipeline filling";
    case WaitKind::stage:
      return "late stages";
  }
  return "";
}

const char* help(WaitKind kind, bool alike) {
  switch (kind) {
    case WaitKind::drain:
    case WaitKind::fill:
      return "more microbatches, more chunks a rank (--vpp), or encoder items put into these gaps "
             "(--schedule "
             "nested-fill)";
    case WaitKind::order:
      return "a queue for each message, or sends in the order in which they are needed";
    case WaitKind::transfer:
    case WaitKind::exchange:
      return "exchanges that run beside computing";
    case WaitKind::host:
      return "a look at launches, data loading and garbage collection between operators";
    case WaitKind::link:
      return "smaller or earlier messages, or a faster link";
    case WaitKind::encoder:
      return "encoder work further ahead (--warmup-units), spread over the ranks by size, or in the bubbles "
             "(nested-fill)";
    case WaitKind::generator:
      return "smaller generator units (--generator-unit), their items spread over the ranks by size";
    case WaitKind::stage:
      return alike ? "shorter messages or other operators in these gaps: the stages take alike, so no split "
                     "of the layers "
                     "will"
                   : "fewer layers in the slowest stage";
  }
  return "";
}

// The mean time of a microbatch's operators in each stage.
std::vector<double> stage_means(const Recording& recording) {
  Dependencies dependencies(recording.schedule.step, {});
  std::vector<double> means(size_t(dependencies.stages()), 0);
  for (int rank = 0; rank < int(recording.timeline.rows.size()); ++rank)
    for (const auto& [op, start, end] : recording.timeline.rows[rank].operators)
      if (op.module == Module::backbone) means[dependencies.stage(rank, op.chunk)] += end - start;
  for (double& mean : means) mean /= double(recording.schedule.step.microbatches);
  return means;
}

bool stages_alike(const std::vector<double>& means) {
  double mean = std::accumulate(means.begin(), means.end(), 0.0) / double(means.size());
  return means.size() < 2 || *std::max_element(means.begin(), means.end()) < 1.03 * mean;
}

void say_slowest_stage(std::vector<std::string>& said, const Recording& recording,
                       const std::vector<double>& means) {
  if (stages_alike(means)) return;
  auto slowest = std::max_element(means.begin(), means.end());
  double mean = std::accumulate(means.begin(), means.end(), 0.0) / double(means.size());
  auto stage = slowest - means.begin();
  said.push_back(fmt::format(
      "Stage {} (rank {}) takes {:.0f} % more for a microbatch than stages do on average: every microbatch "
      "passes through it. Fewer layers there would help.",
      stage, rank_of_stage(recording.schedule.step, stage), 100 * (*slowest / mean - 1)));
}

void say_worst_rank(std::vector<std::string>& said, const Recording& recording,
                    const std::vector<std::vector<NamedWait>>& waits) {
  auto times = rank_times(recording.timeline);
  auto less_busy = [](const RankTime& a, const RankTime& b) { return a.busy < b.busy; };
  auto [least, most] = std::minmax_element(times.begin(), times.end(), less_busy);
  double length = recording.timeline.length();
  auto rank = least - times.begin();
  auto sums = sum_of(waits[size_t(rank)]);
  auto dearest = std::max_element(sums.begin(), sums.end());
  if (most->busy - least->busy < kWorthSaying * length) {
    said.push_back(fmt::format("All ranks compute alike: {:.1f} % of the step.", 100 * least->busy / length));
    return;
  }
  auto text = fmt::format("Rank {} computes least: {:.1f} % of the step (most: rank {}, {:.1f} %).", rank,
                          100 * least->busy / length, most - times.begin(), 100 * most->busy / length);
  if (*dearest > 0)
    text += fmt::format(" Most of its idle time, {:.1f} % of the step, goes to {}.", 100 * *dearest / length,
                        words(WaitKind(dearest - sums.begin())));
  said.push_back(text);
}

// Where one stage, rank or module stands behind most of a kind.
std::string blamed(const Recording& recording, const std::vector<std::vector<NamedWait>>& waits,
                   WaitKind kind) {
  std::map<std::string, double> cost;
  double all = 0;
  for (const auto& of_rank : waits)
    for (const auto& [wait, own] : of_rank) {
      if (own != kind || !wait.culprit) continue;
      const auto& op = wait.culprit->slice.op;
      auto what =
          op.module == Module::backbone
              ? fmt::format("rank {}", wait.culprit->rank)
              : fmt::format("{} on rank {}",
                            recording.schedule.module_of(recording.schedule.shares.list[op.index]).name,
                            wait.culprit->rank);
      cost[what] += wait.length();
      all += wait.length();
    }
  auto largest = std::max_element(cost.begin(), cost.end(),
                                  [](const auto& a, const auto& b) { return a.second < b.second; });
  if (kind == WaitKind::fill || kind == WaitKind::transfer || largest == cost.end() ||
      largest->second < all / 3)
    return "";
  return fmt::format(", {:.0f} % of it to {}", 100 * largest->second / all, largest->first);
}

}  // namespace

std::vector<std::string> findings(const Recording& recording, const std::vector<PathStep>& path,
                                  const std::vector<std::vector<NamedWait>>& waits) {
  std::vector<std::string> said;
  double total = recording.timeline.length() * double(recording.timeline.rows.size());
  if (!(total > 0)) return {"The step has no length."};
  say_worst_rank(said, recording, waits);
  ByKind sums{};
  for (const auto& of_rank : waits) {
    auto of = sum_of(of_rank);
    for (size_t kind = 0; kind < kWaitKinds; ++kind) sums[kind] += of[kind];
  }
  auto means = stage_means(recording);
  // Filling and draining have one cure.
  sums[size_t(WaitKind::fill)] += sums[size_t(WaitKind::drain)];
  sums[size_t(WaitKind::drain)] = 0;
  std::array<size_t, kWaitKinds> kinds{};
  std::iota(kinds.begin(), kinds.end(), 0);
  std::stable_sort(kinds.begin(), kinds.end(), [&](size_t a, size_t b) { return sums[a] > sums[b]; });
  for (size_t n = 0; n < 3 && sums[kinds[n]] > kWorthSaying * total; ++n) {
    auto kind = WaitKind(kinds[n]);
    const char* what = kind == WaitKind::fill ? "the pipeline filling and draining" : words(kind);
    said.push_back(fmt::format("{:.1f} % of all ranks' time goes to {}{}. What would help: {}.",
                               100 * sums[kinds[n]] / total, what, blamed(recording, waits, kind),
                               help(kind, stages_alike(means))));
  }
  say_slowest_stage(said, recording, means);
  if (!path.empty()) {
    double gaps = 0;
    for (const auto& step : path) gaps += step.gap;
    said.push_back(
        fmt::format("The step's end hangs on {} operators; {:.1f} % of that chain is time between operators.",
                    path.size(), 100 * gaps / recording.timeline.length()));
  }
  return said;
}

}  // namespace bigmac
