#pragma once

#include <algorithm>
#include <limits>

#include "tests/plan/support.h"

namespace bigmac {

inline constexpr int64_t kBest = 10, kPasses = 2;

// One candidate after the other, nothing passed over.
class BruteForce {
  struct Numbered {
    Outcome outcome;
    size_t number = 0;
  };

 public:
  BruteForce(const Workload& workload, int64_t samples) : estimator_(workload, samples) {
    auto legal = bigmac::candidates(workload, samples, workload.search).legal;
    candidates_ = int64_t(legal.size());
    for (size_t n = 0; n < legal.size(); ++n) try {
        auto outcome = estimator_.evaluate(legal[n], kPasses);
        if (outcome.fits)
          fitting_.push_back(Numbered{outcome, n});
        else
          least_memory_ = std::min(least_memory_, outcome.memory);
      } catch (const InvalidInput&) {
        ++without_table_;
      }
    sort(fitting_);
  }

  std::vector<Outcome> best(int64_t most = kBest) {
    std::vector<Numbered> list;
    for (const auto& one : fitting_)
      if (list.empty() || order(list.back(), false) != order(one, false)) list.push_back(one);
    if (int64_t(list.size()) > most) list.resize(size_t(most));
    refine(list);
    return outcomes(list);
  }

  std::vector<Outcome> frontier() {
    auto list = undominated(fitting_);
    refine(list);
    return outcomes(undominated(list));
  }

  int64_t candidates() const { return candidates_; }
  int64_t without_table() const { return without_table_; }
  size_t fitting() const { return fitting_.size(); }
  double least_memory() const { return least_memory_; }

 private:
  static std::tuple<double, double, size_t> order(const Numbered& one, bool with_number = true) {
    return {one.outcome.step, one.outcome.memory, with_number ? one.number : 0};
  }
  static void sort(std::vector<Numbered>& list) {
    std::sort(list.begin(), list.end(), [](const auto& a, const auto& b) { return order(a) < order(b); });
  }
  static std::vector<Numbered> undominated(const std::vector<Numbered>& sorted) {
    std::vector<Numbered> out;
    for (const auto& one : sorted)
      if (out.empty() || one.outcome.memory < out.back().outcome.memory) out.push_back(one);
    return out;
  }
  void refine(std::vector<Numbered>& list) {
    for (auto& one : list) {
      if (one.outcome.configuration.arrangement != Arrangement::nested_fill) continue;
      auto outcome = estimator_.evaluate(one.outcome.configuration);
      if (outcome.fits && outcome.step < one.outcome.step) one.outcome = outcome;
    }
    sort(list);
  }
  static std::vector<Outcome> outcomes(const std::vector<Numbered>& list) {
    std::vector<Outcome> out;
    for (const auto& one : list) out.push_back(one.outcome);
    return out;
  }

  Estimator estimator_;
  std::vector<Numbered> fitting_;
  int64_t candidates_ = 0, without_table_ = 0;
  double least_memory_ = std::numeric_limits<double>::infinity();
};

}  // namespace bigmac
