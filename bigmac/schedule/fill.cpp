#include "bigmac/schedule/fill.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <numeric>

#include "bigmac/schedule/fill_pass.h"
#include "bigmac/schedule/length.h"
#include "bigmac/schedule/nest.h"

namespace bigmac {
namespace {

constexpr double kEndless = 1e9;

// In the order in which they are tried. Found by a search over a set of equal and random steps
// (docs/fill.md). Grain and slip are in the longest encoder backward, lead in the mean work of a unit of P
// microbatches.
constexpr FillRule kRules[] = {
    // eagerness, forwards first, grain, overrun, overrun unready, lead, slip, even, in line, longest backward
    {0.0, false, 1.0, 0.0, 0.25, 1.00, 1.0, true, false, true},
    {0.0, false, 1.0, 0.5, 0.75, 2.00, kEndless, false, true, false},
    {0.3, false, 0.0, 0.5, 0.50, 0.50, 1.0, true, false, false},
    {0.0, false, 0.0, 0.0, 0.25, 1.00, 1.0, false, true, false},
    {0.0, false, 1.0, 0.0, 0.50, 1.00, 0.5, true, false, true},
    {0.6, false, 0.0, 0.5, 0.25, 0.25, 2.0, true, true, false},
    {0.0, true, 0.0, 0.5, 0.00, 2.00, 2.0, true, false, true},
    {0.0, false, 0.0, 0.5, 0.75, 0.25, 0.5, true, true, true},
    {0.6, false, 0.0, 0.0, 1.00, 0.00, kEndless, false, false, true},
    {0.6, true, 0.5, 0.0, 0.25, 0.00, 0.5, false, true, false},
    {0.0, true, 0.0, 0.5, 0.50, 2.00, 2.0, true, false, true},
    {0.0, false, 0.5, 0.0, 0.25, 0.25, kEndless, true, true, true},
    {0.3, true, 1.0, 0.5, 0.50, 2.00, 2.0, false, false, false},
    {0.0, false, 0.5, 0.5, 0.50, 0.50, kEndless, true, true, true},
    {1.0, true, 0.0, 0.5, 0.25, 1.00, 1.0, false, false, false},
    {0.6, false, 1.0, 0.0, 0.50, 0.25, 0.5, true, true, true},
};

constexpr double kGoodEnough = 1.0005;  // of the shortest there can be
// Passes are limited by a count, not by time: the same step gives the same table on every machine.
constexpr double kMostOperators = 6e6;  // of all passes together
constexpr double kFewestPasses = 2;
// After a pass its rule is tried again with allowances that even out when the ranks end.
constexpr int kRounds = 3;
constexpr double kCorrection = 1.2;
constexpr double kEvenEnough = 0.002;  // of the length: the last rank's end over the mean
constexpr double kNoGain = 1e-9;

FillRule scaled(FillRule rule, const Filling& filling) {
  rule.grain *= filling.longest_backward;
  rule.slip *= filling.longest_backward;
  rule.lead *= filling.mean_work / double(filling.step().microbatches) * double(filling.step().ranks);
  return rule;
}

class Search {
 public:
  Search(const Filling& filling, int64_t most_passes) : filling_(filling), flow_(filling) {
    auto operators = double(filling.backbone.table.operators.size() + 2 * filling.items.size());
    passes_ = std::min(int64_t(std::max(kFewestPasses, kMostOperators / operators)), most_passes);
    rounds_ = passes_ < int64_t(std::size(kRules)) ? 0 : kRounds;
  }

  void run() {
    for (const auto& rule : kRules) {
      if (passes_ == 0 || length <= kGoodEnough * filling_.shortest) return;
      try_rule(scaled(rule, filling_));
    }
  }

  double length = std::numeric_limits<double>::infinity();
  Schedule best;

 private:
  void try_rule(FillRule rule) {
    Stretch stretch(flow_, filling_.step().ranks, rule.eagerness);
    double shortest_of_rule = std::numeric_limits<double>::infinity();
    std::vector<double> allowance;
    for (double backbone : filling_.backbone.work) allowance.push_back(filling_.shortest - backbone);
    for (int round = 0; round <= rounds_ && passes_ > 0; ++round) {
      FillPass pass(filling_, stretch, rule, allowance);
      --passes_;
      if (!pass.run()) return;
      double took = pass.length();
      if (took < length) {
        length = took;
        best = pass.table();
      }
      const auto& finished = pass.finished();
      double mean = std::accumulate(finished.begin(), finished.end(), 0.0) / double(finished.size());
      if (took - mean < kEvenEnough * took || took > shortest_of_rule * (1 - kNoGain)) return;
      shortest_of_rule = took;
      rule.even = true;
      for (size_t rank = 0; rank < allowance.size(); ++rank)
        allowance[rank] = pass.assigned()[rank] + kCorrection * (mean - finished[rank]);
    }
  }

  const Filling& filling_;
  const Flow flow_;
  int64_t passes_;
  int rounds_;
};

}  // namespace

Schedule fill_schedule(const Step& step, const Costs& nominal, int64_t most_passes) {
  Schedule nested = nested_schedule(step, nominal);
  Filling filling(step, nominal, warmup_units(step, nominal));
  Search search(filling, most_passes);
  search.run();
  // Of two that take as long, the nested one holds less.
  return search.length < length_of(nested, nominal) * (1 - kNoGain) ? std::move(search.best) : nested;
}

}  // namespace bigmac
