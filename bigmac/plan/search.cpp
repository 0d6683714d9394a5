#include "bigmac/plan/search.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <limits>
#include <mutex>
#include <numeric>
#include <thread>
#include <variant>

#include "bigmac/common/error.h"
#include "bigmac/plan/estimator.h"

namespace bigmac {
namespace {

constexpr size_t kRound = 64;  // candidates

// By step, then memory, then the order of the candidates, so that the result does not hang on threads.
struct Ranked {
  Outcome outcome;
  size_t candidate = 0;

  bool operator<(const Ranked& other) const {
    return std::tuple(outcome.step, outcome.memory, candidate) <
           std::tuple(other.outcome.step, other.outcome.memory, other.candidate);
  }
};

int threads_of(const SearchOptions& options) {
  return options.threads > 0 ? options.threads : std::max(1, int(std::thread::hardware_concurrency()));
}

// Runs work(thread) on each of some threads; throws what the first of them threw.
template <class Work>
void run_threads(int count, Work&& work) {
  std::vector<std::exception_ptr> errors(static_cast<size_t>(count));
  {
    std::vector<std::jthread> threads;
    threads.reserve(size_t(count));
    for (int t = 0; t < count; ++t)
      threads.emplace_back([&, t] {
        try {
          work(t);
        } catch (...) {
          errors[size_t(t)] = std::current_exception();
        }
      });
  }
  for (const auto& error : errors)
    if (error) std::rethrow_exception(error);
}

class Searching {
 public:
  Searching(const Workload& workload, int64_t samples_per_gpu, const SearchOptions& options)
      : workload_(workload),
        options_(options),
        candidates_(candidates(workload, samples_per_gpu, workload.search)) {
    plan_.samples_per_gpu = samples_per_gpu;
    plan_.refused = candidates_.refused;
    plan_.candidates = int64_t(candidates_.legal.size());
    if (candidates_.legal.empty()) throw InvalidInput(nothing_legal());
    for (int t = 0; t < threads_of(options); ++t) estimators_.emplace_back(workload, samples_per_gpu);
  }

  Plan run() {
    bound();
    simulate();
    refine(best_);
    refine(frontier_);
    thin_frontier();
    for (auto& ranked : best_) plan_.best.push_back(std::move(ranked.outcome));
    for (auto& ranked : frontier_) plan_.frontier.push_back(std::move(ranked.outcome));
    if (plan_.best.empty()) explain();
    return std::move(plan_);
  }

 private:
  std::string nothing_legal() const {
    std::string text = concat("[plan] no configuration of '", workload_.name, "' is legal:");
    for (const auto& [kind, refused] : plan_.refused)
      text += concat("\n  ", refused.count, " times: ", refused.example);
    if (plan_.refused.empty())
      text += " no base of the search goes with its numbers of chunks (VPP), or no split has as many stages";
    return text;
  }

  void bound() {
    least_.resize(candidates_.legal.size());
    for_each((least_.size() + kRound - 1) / kRound, [&](size_t block, Estimator& estimator) {
      for (size_t i = block * kRound; i < std::min((block + 1) * kRound, least_.size()); ++i)
        least_[i] = estimator.least(candidates_.legal[i]);
    });
    order_.resize(least_.size());
    std::iota(order_.begin(), order_.end(), 0);
    std::sort(order_.begin(), order_.end(), [&](size_t a, size_t b) {
      return std::tuple(least_[a].step, least_[a].memory, a) <
             std::tuple(least_[b].step, least_[b].memory, b);
    });
  }

  // In rounds, so that what is passed over does not hang on which thread was first.
  void simulate() {
    for (auto next = order_.begin(); next != order_.end();) {
      std::vector<size_t> round;
      for (; next != order_.end() && round.size() < kRound; ++next)
        if (may_be_wanted(*next)) round.push_back(*next);
      std::vector<std::variant<Outcome, std::string>> outcomes(round.size());
      for_each(round.size(), [&](size_t at, Estimator& estimator) {
        try {
          outcomes[at] = estimator.evaluate(candidates_.legal[round[at]], options_.passes);
        } catch (const InvalidInput& error) {  // a W that is too small
          outcomes[at] = error.what();
        }
        report_progress();
      });
      for (size_t at = 0; at < round.size(); ++at) settle(round[at], std::move(outcomes[at]));
    }
  }

  // work(n, estimator) for all n, over the threads.
  template <class Work>
  void for_each(size_t count, Work&& work) {
    std::atomic<size_t> next{0};
    run_threads(int(std::min(count, estimators_.size())), [&](int t) {
      for (size_t n = next++; n < count; n = next++) work(n, estimators_[size_t(t)]);
    });
  }

  void report_progress() {
    if (!options_.progress) return;
    std::lock_guard lock(mutex_);
    if (++settled_ % 64 == 0) options_.progress(settled_, int64_t(order_.size()));
  }

  bool may_be_wanted(size_t candidate) {
    const auto& least = least_[candidate];
    bool fits = least.memory <= workload_.memory;
    if (!fits) count_out_of_memory(to_text(candidates_.legal[candidate], workload_), least.memory);
    if (fits && !is_beaten(least)) return true;
    report_progress();
    return false;
  }

  void settle(size_t candidate, std::variant<Outcome, std::string>&& result) {
    ++plan_.simulated;
    if (auto* why_not = std::get_if<std::string>(&result)) {
      auto& refused = plan_.refused["schedule"];
      if (refused.count++ == 0)
        refused.example = to_text(candidates_.legal[candidate], workload_) + ": " + *why_not;
      return;
    }
    Ranked ranked{std::get<Outcome>(std::move(result)), candidate};
    if (ranked.outcome.fits)
      keep(ranked);
    else
      keep_out_of_memory(ranked);
  }

  // Whether enough others are shorter, and one of these holds less too.
  bool is_beaten(const LeastOutcome& least) const {
    if (int64_t(best_.size()) < options_.best || best_.back().outcome.step >= least.step) return false;
    if (!options_.frontier) return true;
    double slack = 1 + options_.tolerance;
    return std::any_of(frontier_.begin(), frontier_.end(), [&](const Ranked& other) {
      return other.outcome.step < slack * least.step && other.outcome.memory < slack * least.memory;
    });
  }

  void keep(const Ranked& ranked) {
    keep_best(ranked);
    auto at = std::upper_bound(frontier_.begin(), frontier_.end(), ranked);
    if (at != frontier_.begin() && std::prev(at)->outcome.memory <= ranked.outcome.memory) return;
    at = frontier_.insert(at, ranked);
    auto end = std::find_if(std::next(at), frontier_.end(), [&](const Ranked& other) {
      return other.outcome.memory < ranked.outcome.memory;
    });
    frontier_.erase(std::next(at), end);
  }

  // Of configurations that come to the same, such as two W, the first.
  void keep_best(const Ranked& ranked) {
    auto same = std::find_if(best_.begin(), best_.end(), [&](const Ranked& other) {
      return other.outcome.step == ranked.outcome.step && other.outcome.memory == ranked.outcome.memory;
    });
    if (same != best_.end()) {
      if (ranked.candidate < same->candidate) *same = ranked;
      return;
    }
    best_.insert(std::upper_bound(best_.begin(), best_.end(), ranked), ranked);
    if (int64_t(best_.size()) > options_.best) best_.pop_back();
  }

  // nested-fill with all of its passes.
  void refine(std::vector<Ranked>& list) {
    for_each(list.size(), [&](size_t at, Estimator& estimator) {
      if (list[at].outcome.configuration.arrangement != Arrangement::nested_fill) return;
      auto outcome = estimator.evaluate(list[at].outcome.configuration);
      if (outcome.fits && outcome.step < list[at].outcome.step) list[at].outcome = std::move(outcome);
    });
    std::sort(list.begin(), list.end());
  }

  void thin_frontier() {
    double least = std::numeric_limits<double>::infinity();
    std::erase_if(frontier_, [&](const Ranked& ranked) {
      bool beaten = ranked.outcome.memory >= least;
      least = std::min(least, ranked.outcome.memory);
      return beaten;
    });
  }

  void count_out_of_memory(const std::string& text, double bytes) {
    ++plan_.out_of_memory.count;
    if (bytes >= least_out_of_memory_) return;
    least_out_of_memory_ = bytes;
    plan_.out_of_memory.example =
        concat(text, ": at least ", bytes_text(bytes), " of ", bytes_text(workload_.memory));
  }

  void keep_out_of_memory(const Ranked& ranked) {
    count_out_of_memory(to_text(ranked.outcome.configuration, workload_), ranked.outcome.memory);
    if (!nearest_ || std::tuple(ranked.outcome.memory, ranked.candidate) <
                         std::tuple(nearest_->outcome.memory, nearest_->candidate))
      nearest_ = ranked;
  }

  // Where nothing fits, why not what comes nearest.
  void explain() {
    auto& estimator = estimators_.front();
    std::sort(order_.begin(), order_.end(), [&](size_t a, size_t b) {
      return std::tuple(least_[a].memory, a) < std::tuple(least_[b].memory, b);
    });
    for (size_t next : order_) {
      if (nearest_ && least_[next].memory >= nearest_->outcome.memory) break;
      try {
        Ranked ranked{estimator.evaluate(candidates_.legal[next], options_.passes), next};
        if (!nearest_ || ranked.outcome.memory < nearest_->outcome.memory) nearest_ = std::move(ranked);
      } catch (const InvalidInput&) {  // a W that is too small
      }
    }
    if (!nearest_) return;
    plan_.least_memory = nearest_->outcome;
    plan_.out_of_memory_text = estimator.explain_memory(nearest_->outcome.configuration, options_.passes);
  }

  const Workload& workload_;
  const SearchOptions& options_;
  Candidates candidates_;
  std::vector<Estimator> estimators_;
  std::vector<LeastOutcome> least_;
  std::vector<size_t> order_;
  std::vector<Ranked> best_, frontier_;
  std::optional<Ranked> nearest_;
  double least_out_of_memory_ = std::numeric_limits<double>::infinity();
  Plan plan_;
  std::mutex mutex_;  // over progress
  int64_t settled_ = 0;
};

}  // namespace

Plan search(const Workload& workload, int64_t samples_per_gpu, const SearchOptions& options) {
  if (samples_per_gpu < 1)
    throw InvalidInput(concat("[plan] samples a GPU must be at least 1, got ", samples_per_gpu));
  if (options.best < 1) throw InvalidInput(concat("[plan] best must be at least 1, got ", options.best));
  return Searching(workload, samples_per_gpu, options).run();
}

}  // namespace bigmac
