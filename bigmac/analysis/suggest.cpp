#include "bigmac/analysis/suggest.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "bigmac/analysis/recognise.h"
#include "bigmac/analysis/split.h"
#include "bigmac/common/error.h"
#include "bigmac/schedule/check.h"
#include "bigmac/schedule/make.h"
#include "bigmac/schedule/nest.h"
#include "bigmac/schedule/order.h"
#include "bigmac/simulate/simulate.h"
#include "bigmac/timeline/mean_costs.h"

namespace bigmac {
namespace {

constexpr std::string_view kNames[] = {"split", "W", "order", "generator unit", "arrangement", "V", "base"};

bool runs_ahead(const Step& step) {
  return step.has(Module::encoder) &&
         (step.arrangement == Arrangement::nested || step.arrangement == Arrangement::nested_fill);
}

class Search {
 public:
  Search(const Recording& recording, double latency, const AnalysisOptions& options)
      : recording_(recording), options_(options), costs_(mean_costs(recording.schedule, recording.timeline)) {
    auto recognised = recognise(recording, costs_);
    costs_.latency = found_.latency = latency;
    found_.own = simulate(recording.schedule, costs_).length();
    step_ = std::move(recognised.step);
    exact_ = recognised.exact;
    found_.base = recognised.base_known ? name(step_.base) : name(Base::custom);
    bool nested = !step_.modules.empty();
    found_.arrangement = nested && !exact_ && step_.arrangement == Arrangement::nested
                             ? std::string(name(Base::custom))
                             : std::string(name(step_.arrangement));
    set_units();
  }

  Suggestions find() {
    if (found_.own > 0) {
      try_split();
      if (made_from_base()) {
        find_bubble();
        try_units();
        try_order();
        try_generator_units();
        try_arrangements();
        try_chunks();
        try_bases();
      }
    }
    std::stable_sort(found_.list.begin(), found_.list.end(),
                     [](const auto& a, const auto& b) { return a.gain > b.gain; });
    return std::move(found_);
  }

 private:
  bool made_from_base() const {
    return step_.stage_ranks.empty() && recording_.schedule.step.stages() == step_.ranks * step_.chunks &&
           step_.base != Base::custom;
  }

  void set_units() {
    found_.warmup_units.assign(step_.modules.size(), 0);
    if (!runs_ahead(step_)) return;
    if (exact_) {
      found_.warmup_units = warmup_units(step_, costs_);
      return;
    }
    for (const auto& peak : peak_live(recording_.schedule))
      for (size_t n = 0; n < peak.units.size(); ++n)
        if (step_.modules[n].kind == Module::encoder)
          found_.warmup_units[n] = std::max(found_.warmup_units[n], int64_t(std::ceil(peak.units[n] - 0.01)));
    for (size_t n = 0; n < step_.modules.size(); ++n) step_.modules[n].warmup_units = found_.warmup_units[n];
    if (!legal(step_)) {
      for (auto& module : step_.modules) module.warmup_units = 0;
    }
  }

  bool legal(const Step& step) const {
    try {
      warmup_units(step, costs_);
      return true;
    } catch (const InvalidInput&) {
      return false;
    }
  }

  void keep(Change change, std::string text, double length, std::string condition) {
    ++found_.tried;
    double gain = 1 - length / found_.own;
    if (gain < kLeastGain) return;
    found_.list.push_back({change, std::move(text), length, gain, std::move(condition)});
  }

  // None where the step is not legal.
  std::optional<double> length(const Step& step, const Costs& costs) {
    double backbone = double(step.ranks) * double(step.chunks) * double(step.microbatches) * 2;
    if (made_ + int64_t(backbone) > options_.most_operators) {
      ++found_.left_out;
      return {};
    }
    made_ += int64_t(backbone);
    try {
      return simulate(make_schedule(step, costs), costs).length();
    } catch (const InvalidInput&) {
      return {};
    }
  }

  void try_step(Change change, const Step& step, const Costs& costs, std::string text,
                std::string condition = {}) {
    if (auto time = length(step, costs)) keep(change, std::move(text), *time, std::move(condition));
  }

  void try_split() {
    std::vector<double> times;
    for (size_t s = 0; s < costs_.forward.size(); ++s)
      times.push_back(costs_.forward[s] + costs_.backward[s]);
    if (times.size() < 2) return;
    if (!options_.layout.stages.empty()) {
      auto split = balanced_split(options_.layout, times);
      auto costs = costs_;
      for (auto* list : {&costs.forward, &costs.backward, &costs.weight})
        for (size_t s = 0; s < list->size(); ++s) (*list)[s] *= split.scale[s];
      keep(Change::split, "split the layers as " + to_text(split.layout),
           simulate(recording_.schedule, costs).length(), "");
      return;
    }
    auto even = evened(costs_);
    double mean = even.forward[0] + even.backward[0];
    auto most = size_t(std::max_element(times.begin(), times.end()) - times.begin());
    auto least = size_t(std::min_element(times.begin(), times.end()) - times.begin());
    if (mean <= 0 || times[most] <= 1.02 * mean) return;
    auto text =
        fmt::format("split the layers by time: stage {} {:.0f} % less", most, 100 * (1 - mean / times[most]));
    if (times[least] > 0)
      text += fmt::format(", stage {} {:.0f} % more", least, 100 * (mean / times[least] - 1));
    keep(Change::split, text, simulate(recording_.schedule, even).length(), "if stages can be made equal");
  }

  void find_bubble() {
    if (found_.base == name(Base::custom)) return;
    Step base = step_;
    base.arrangement = Arrangement::llm_only;
    base.modules.clear();
    auto even = evened(costs_);
    even.latency = 0;
    even.modules.clear();
    double work = double(base.chunks) * double(base.microbatches) * (even.forward[0] + even.backward[0]);
    if (auto time = length(base, even)) found_.base_bubble = std::max(0.0, *time - work);
  }

  // A W that holds more than nesting needs, and gains nothing by it.
  void try_fewer_units() {
    if (!exact_ || step_.arrangement != Arrangement::nested) return;
    Step step = step_;
    for (auto& module : step.modules) module.warmup_units = 0;
    auto least = warmup_units(step, costs_);
    std::string text;
    int64_t fewer = 0;
    for (size_t n = 0; n < least.size(); ++n) {
      if (least[n] >= found_.warmup_units[n] || !step.modules[n].trained) continue;
      text += fmt::format("{}W of '{}' = {} instead of {}", text.empty() ? "" : ", ", step.modules[n].name,
                          least[n], found_.warmup_units[n]);
      fewer += found_.warmup_units[n] - least[n];
    }
    auto time = fewer > 0 ? length(step, costs_) : std::nullopt;
    constexpr double kNoLonger = 1.001;
    if (time && *time <= found_.own * kNoLonger)
      found_.list.push_back(
          {Change::warmup_units, text, *time, 0,
           fmt::format("the same step with up to {} units of encoder activations less", fewer), true});
  }

  void try_units() {
    if (!runs_ahead(step_)) return;
    try_fewer_units();
    auto known = length(step_, costs_);
    if (!known) return;
    for (int64_t more : {1, 2, 4, 6}) {
      Step step = step_;
      std::string text;
      for (size_t n = 0; n < step.modules.size(); ++n) {
        auto& module = step.modules[n];
        if (module.kind != Module::encoder) continue;
        module.warmup_units = std::max<int64_t>(found_.warmup_units[n], 1) + more;
        text += fmt::format("{}W of '{}' = {} instead of {}", text.empty() ? "" : ", ", module.name,
                            module.warmup_units, found_.warmup_units[n]);
      }
      auto time = length(step, costs_);
      // What W brings, not what is made anew with it.
      constexpr double kMore = 0.005;
      bool is_better = best_units_ <= 0 || (time && *time < best_units_ * (1 - kMore));
      if (!time || *time > *known * (1 - kLeastGain) || !is_better) continue;
      best_units_ = *time;
      std::erase_if(found_.list, [](const auto& other) {
        return other.change == Change::warmup_units && !other.saves_memory;
      });
      keep(Change::warmup_units, text, *time,
           fmt::format("holds up to {} more units of encoder activations", more));
    }
  }

  void try_order() {
    if (step_.modules.empty()) return;
    auto order = balanced_order(step_, costs_);
    if (std::is_sorted(order.begin(), order.end())) return;
    try_step(Change::order, reordered(step_, order), costs_,
             "order the microbatches so that units cost about their mean (--order balanced)");
  }

  void try_generator_units() {
    if (!step_.has(Module::generator)) return;
    for (int64_t k = 1; k <= step_.ranks; ++k) {
      if (step_.ranks % k != 0 || k == step_.unit_size(Module::generator)) continue;
      Step step = step_;
      step.generator_unit = k;
      try_step(Change::generator_unit, step, costs_, fmt::format("{} microbatches a generator unit", k));
    }
  }

  void try_arrangements() {
    if (step_.modules.empty()) return;
    for (auto arrangement : {Arrangement::nested, Arrangement::nested_fill}) {
      if (arrangement == step_.arrangement && found_.arrangement == name(arrangement)) continue;
      Step step = step_;
      step.arrangement = arrangement;
      for (auto& module : step.modules) module.warmup_units = 0;
      try_step(Change::arrangement, step, costs_,
               arrangement == Arrangement::nested
                   ? "nested: encoder and generator work in units at consistent cuts of all ranks"
                   : "nested-fill: items one by one in the LLM's bubbles");
    }
  }

  void try_chunks() {
    constexpr int64_t kMostChunks = 8;
    if (step_.base != Base::one_f_one_b && step_.base != Base::interleaved) return;
    for (int64_t parts : {2, 4}) {
      Step step = step_;
      step.chunks *= parts;
      if (step.chunks > kMostChunks) continue;
      step.base = Base::interleaved;
      auto costs = cut_in_parts(costs_, parts);
      for (auto& module : step.modules) module.warmup_units = 0;
      try_step(Change::chunks, step, costs,
               fmt::format("V = {}: every stage in {} equal chunks, interleaved 1F1B", step.chunks, parts),
               "more messages, and more activations in flight");
    }
  }

  void try_bases() {
    for (Base base : {Base::zb_h1, Base::zb_v, Base::interleaved}) {
      Step step = step_;
      step.base = base;
      bool fits = base == Base::zb_h1 ? step.chunks == 1
                                      : step.chunks == 2 || (base == Base::interleaved && step.chunks > 1);
      if (!fits || base == step_.base) continue;
      bool whole = std::none_of(recording_.schedule.operators.begin(), recording_.schedule.operators.end(),
                                [](const auto& op) { return op.phase == Phase::input; });
      try_step(Change::base, step, costs_, fmt::format("the order of {}", name(base)),
               whole && base != Base::interleaved ? "if the weight gradient is half of a backward" : "");
    }
  }

  const Recording& recording_;
  const AnalysisOptions& options_;
  Costs costs_;
  Suggestions found_;
  Step step_;
  bool exact_ = false;
  double best_units_ = 0;
  int64_t made_ = 0;
};

}  // namespace

std::string_view name(Change change) {
  return kNames[size_t(change)];
}

Suggestions suggest(const Recording& recording, double latency, const AnalysisOptions& options) {
  return Search(recording, latency, options).find();
}

}  // namespace bigmac
