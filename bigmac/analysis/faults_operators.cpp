#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "bigmac/analysis/faults.h"
#include "bigmac/analysis/split.h"

namespace bigmac {
namespace {

constexpr double kFarLarger = 5;  // items, times the median of their module
constexpr double kLongMicrobatch = 1.5;
constexpr double kStraggles = 2;     // operators, times the median of their kind
constexpr double kSlowStage = 1.05;  // times the other stages
constexpr double kSlow = 1.1;        // ranks, times the others
constexpr double kFewRanks = 1.5;    // of work, times the mean rank

std::string times(double factor) {
  return factor < 10 ? fmt::format("{:.2f}x", factor) : fmt::format("{:.0f}x", factor);
}

double median_size(const NestedModule& module) {
  std::vector<double> sizes;
  for (const auto& item : module.items) sizes.push_back(item.size);
  return median_of(std::move(sizes));
}

std::string several(size_t count, const char* what) {
  return count > 1 ? fmt::format(" ({} {} in all)", count, what) : "";
}

// Why a stage takes longer: as far as that can be told.
enum class Why : uint8_t { unknown, layers, device };

Why why_slow(const Cleared& step, const std::vector<double>& stages, size_t slowest) {
  const auto& layout = step.layout;
  if (!layout.stages.empty()) {
    if (layout.stages[slowest].embedding || layout.stages[slowest].loss) return Why::layers;
    auto layers = layer_times(layout, stages);
    double own = layers[slowest];
    layers.erase(layers.begin() + int64_t(slowest));
    std::erase(layers, 0.0);
    return own > kSlowStage * median_of(layers) ? Why::device : Why::layers;
  }
  auto rank = step.kinds.rank_of_stage[slowest];
  auto count = std::count(step.kinds.rank_of_stage.begin(), step.kinds.rank_of_stage.end(), rank);
  return count == 1 && step.schedule.step.modules.empty() ? Why::unknown : Why::layers;
}

}  // namespace

std::optional<Finding> clear_items(Cleared& step) {
  const auto& schedule = step.schedule;
  std::vector<double> medians;
  for (const auto& module : schedule.step.modules) medians.push_back(median_size(module));
  Finding found{.fault = Fault::straggling_item};
  const Share* of_largest = nullptr;
  std::vector<double> kept;  // by share: of its size, with such items as large as the median
  size_t count = 0;
  for (const auto& share : schedule.shares.list) {
    double size = 0, left = 0, median = medians[size_t(share.module)];
    const auto& items = schedule.module_of(share).items;
    for (uint32_t number : schedule.shares.items_of(share)) {
      double own = items[number].size;
      bool far_larger = median > 0 && own > kFarLarger * median;
      size += own;
      left += far_larger ? median : own;
      count += far_larger;
      if (!far_larger || own / median <= found.factor) continue;
      found.factor = own / median;
      found.item = number;
      of_largest = &share;
    }
    kept.push_back(size > 0 ? left / size : 1);
  }
  if (of_largest == nullptr) return {};
  for (size_t i = 0; i < step.model.count(); ++i)
    if (step.kinds.stage[i] < 0) {
      step.model.duration[i] *= kept[step.model.slices[i].op.index];
      step.kinds.size[i] *= kept[step.model.slices[i].op.index];
    }
  const auto& module = schedule.module_of(*of_largest);
  found.rank = of_largest->rank;
  found.module = module.name;
  found.microbatch = schedule.step.declared(module.items[size_t(found.item)].microbatch);
  found.text = fmt::format("item {} of '{}' (microbatch {}, on rank {}) is {} as large as the median item{}",
                           found.item, module.name, found.microbatch, found.rank, times(found.factor),
                           several(count, "such items"));
  found.advice = "limit the size of an item, or cut it into tiles that several ranks can run";
  return found;
}

std::optional<Finding> clear_microbatches(Cleared& step) {
  auto count = size_t(step.schedule.step.microbatches);
  auto& model = step.model;
  std::vector<double> took(count, 0), expected(count, 0);
  for (size_t i = 0; i < model.count(); ++i) {
    if (step.kinds.stage[i] < 0) continue;
    double median = step.kinds.expected(i);
    // One operator must not make a microbatch long.
    took[model.slices[i].op.index] += std::min(model.duration[i], kFarLarger * median);
    expected[model.slices[i].op.index] += median;
  }
  Finding found{.fault = Fault::long_microbatch};
  size_t many = 0, longest = 0;
  std::vector<int32_t> stages(count, 0);
  for (size_t i = 0; i < model.count(); ++i)
    if (step.kinds.stage[i] >= 0 && model.slices[i].op.phase == Phase::forward)
      stages[model.slices[i].op.index] += model.duration[i] > kLongMicrobatch * step.kinds.expected(i);
  auto ratio = [&](size_t m) { return expected[m] > 0 ? took[m] / expected[m] : 1; };
  auto is_long = [&](size_t m) {
    return ratio(m) > kLongMicrobatch && 2 * int64_t(stages[m]) >= step.schedule.step.stages() &&
           step.schedule.step.stages() > 1;
  };
  for (size_t m = 0; m < count; ++m) {
    many += is_long(m);
    if (ratio(m) > ratio(longest)) longest = m;
  }
  if (many == 0 || !is_long(longest)) return {};
  for (size_t i = 0; i < model.count(); ++i)
    if (step.kinds.stage[i] >= 0 && is_long(model.slices[i].op.index))
      model.duration[i] = std::min(model.duration[i], step.kinds.expected(i));
  found.factor = ratio(longest);
  found.microbatch = step.schedule.step.declared(int64_t(longest));
  found.text = fmt::format("microbatch {} is long: it takes {} the median microbatch on the LLM's stages{}",
                           found.microbatch, times(found.factor), several(many, "such microbatches"));
  found.advice = "pack samples so that microbatches have alike numbers of tokens";
  return found;
}

std::optional<Finding> clear_operators(Cleared& step) {
  auto& model = step.model;
  std::optional<size_t> worst;
  double most = 0;
  size_t count = 0;
  for (size_t i = 0; i < model.count(); ++i) {
    double expected = step.kinds.expected(i), more = model.duration[i] - expected;
    if (expected <= 0 || model.duration[i] <= kStraggles * expected) continue;
    // An operator as short as the others of its kind, whatever the size of its items, takes what it must.
    if (step.kinds.stage[i] < 0 && step.kinds.size[i] < 1 &&
        model.duration[i] <= kStraggles * step.kinds.median[size_t(step.kinds.of[i])])
      continue;
    ++count;
    if (more > most) {
      most = more;
      worst = i;
    }
  }
  if (!worst) return {};
  Finding found{.fault = Fault::straggling_operator, .rank = model.rank[*worst]};
  found.factor = model.duration[*worst] / step.kinds.expected(*worst);
  found.stage = step.kinds.stage[*worst];
  const Operator& op = model.slices[*worst].op;
  if (found.stage >= 0) found.microbatch = step.schedule.step.declared(op.index);
  auto what = describe(step.schedule, op);
  constexpr size_t kMost = 60;
  if (what.size() > kMost) what = what.substr(0, kMost - 3) + "...";
  found.text = fmt::format("{} on rank {} took {} what its kind takes{}", what, found.rank,
                           times(found.factor), several(count, "such operators"));
  found.advice =
      "look at that moment in the host's log: garbage collection, allocator, data loading, other processes";
  for (size_t i = 0; i < model.count(); ++i) {
    double expected = step.kinds.expected(i);
    if (expected > 0 && model.duration[i] > kStraggles * expected) model.duration[i] = expected;
  }
  return found;
}

std::optional<Finding> clear_rank(Cleared& step) {
  auto ratios = rank_ratios(step.schedule, step.model, step.kinds);
  std::optional<size_t> slowest;
  for (size_t rank = 0; rank < ratios.size(); ++rank) {
    const auto& own = ratios[rank];
    // One stage alone may as well hold more layers than the others: that is a slow stage.
    if (own.stages.size() + own.modules.size() < 2 || own.stages.empty() || own.least() < kSlow) continue;
    if (!slowest || own.least() > ratios[*slowest].least()) slowest = rank;
  }
  if (!slowest) return {};
  const auto& own = ratios[*slowest];
  std::vector<double> all = own.stages;
  all.insert(all.end(), own.modules.begin(), own.modules.end());
  Finding found{.fault = Fault::slow_rank, .rank = int(*slowest), .factor = median_of(all)};
  for (size_t i = 0; i < step.model.count(); ++i)
    if (step.model.rank[i] == found.rank) step.model.duration[i] /= found.factor;
  step.kinds = kinds_of(step.schedule, step.model);
  found.text = fmt::format("rank {} is slow: its operators take {} those of other ranks", found.rank,
                           times(found.factor));
  found.advice = fmt::format(
      "check rank {}'s device (clocks, temperature, other processes) or replace it; or give its stages fewer "
      "layers",
      found.rank);
  return found;
}

std::optional<Finding> clear_stages(Cleared& step) {
  auto stages = stage_times(step.model, step.kinds, step.schedule.step.microbatches);
  if (stages.size() < 2) return {};
  double mean = std::accumulate(stages.begin(), stages.end(), 0.0) / double(stages.size());
  auto slowest = size_t(std::max_element(stages.begin(), stages.end()) - stages.begin());
  auto others = stages;
  others.erase(others.begin() + int64_t(slowest));
  double median = median_of(others);
  if (median <= 0 || stages[slowest] < kSlowStage * median) return {};
  Finding found{.fault = Fault::slow_stage,
                .rank = step.kinds.rank_of_stage[slowest],
                .stage = int64_t(slowest),
                .factor = stages[slowest] / median};
  auto why = why_slow(step, stages, slowest);
  for (size_t i = 0; i < step.model.count(); ++i)
    if (int32_t s = step.kinds.stage[i]; s >= 0 && stages[size_t(s)] > 0)
      step.model.duration[i] *= mean / stages[size_t(s)];
  found.text = fmt::format("stage {} (rank {}) is slow: its operators take {} those of the other stages",
                           slowest, found.rank, times(found.factor));
  if (why == Why::unknown)
    found.text += slowest + 1 == stages.size() ? "; its layers, the head, or its device"
                                               : "; its layers, or its device";
  if (why == Why::device) found.text += ", with no more layers";
  found.advice = fmt::format("split the layers anew: stage {} should hold {:.0f} % less", slowest,
                             100 * (1 - mean / stages[slowest]));
  if (why == Why::unknown)
    found.advice += fmt::format(
        " (if it holds no more than the others, rank {}'s device is slow; --layout tells)", found.rank);
  if (why == Why::device)
    found.advice = fmt::format(
        "check rank {}'s device (clocks, temperature, other processes), or give it fewer layers", found.rank);
  return found;
}

std::optional<Finding> clear_placement(Cleared& step) {
  const Step& shape = step.schedule.step;
  if (!shape.stage_ranks.empty() || shape.ranks < 2) return {};
  auto& model = step.model;
  auto ranks = size_t(shape.ranks);
  std::vector<std::vector<double>> work(shape.modules.size(), std::vector<double>(ranks, 0));
  step.placed.resize(shape.modules.size(), 0);
  auto module_of = [&](size_t i) {
    return size_t(step.schedule.shares.list[model.slices[i].op.index].module);
  };
  for (size_t i = 0; i < model.count(); ++i)
    if (step.kinds.stage[i] < 0) work[module_of(i)][size_t(model.rank[i])] += model.duration[i];
  Finding found{.fault = Fault::misplaced_work};
  size_t module = 0;
  double mean = 0, most = 0;
  for (size_t n = 0; n < work.size(); ++n) {
    if (step.placed[n] || int64_t(shape.modules[n].items.size()) < 2 * shape.ranks) continue;
    double of_rank = std::accumulate(work[n].begin(), work[n].end(), 0.0) / double(ranks);
    auto rank = size_t(std::max_element(work[n].begin(), work[n].end()) - work[n].begin());
    double more = work[n][rank] - of_rank;
    if (work[n][rank] < kFewRanks * of_rank || more <= most) continue;
    most = more;
    mean = of_rank;
    found.rank = int(rank);
    module = n;
  }
  if (found.rank < 0) return {};
  found.factor = work[module][size_t(found.rank)] / mean;
  for (size_t i = 0; i < model.count(); ++i) {
    if (step.kinds.stage[i] >= 0 || module_of(i) != module) continue;
    double own = work[module][size_t(model.rank[i])];
    model.duration[i] *= std::min(1.0, mean / own);
  }
  step.placed[module] = 1;
  found.module = shape.modules[module].name;
  found.text = fmt::format("rank {} runs {:.0f} % of the work of '{}', {} its share", found.rank,
                           100 * found.factor / double(ranks), found.module, times(found.factor));
  found.advice =
      "any rank can run any item: let all of them do so, at places where none waits (nested, below)";
  return found;
}

}  // namespace bigmac
