#pragma once

#include <functional>
#include <optional>

#include "bigmac/plan/candidates.h"
#include "bigmac/plan/outcome.h"

namespace bigmac {

struct SearchOptions {
  int64_t best = 10;     // how many of the shortest steps are wanted
  bool frontier = true;  // and those that no other beats in both time and memory
  // What of the frontier is passed over: what another beats in one of them, and is behind in the other by no
  // more than this part.
  double tolerance = 0.03;
  // nested-fill makes few passes over what is searched, and all of them over what is printed.
  int64_t passes = 2;
  int threads = 0;  // 0: as many as the machine has
  // Called now and then, from one thread at a time, with how many candidates are settled of how many.
  std::function<void(int64_t, int64_t)> progress{};
};

struct Plan {
  int64_t samples_per_gpu = 0;
  std::vector<Outcome> best;      // that fit, by step, then memory
  std::vector<Outcome> frontier;  // that fit, by step; each holds less than the one before
  std::map<std::string, Refused> refused;
  Refused out_of_memory;                // those known to be; the example holds the least
  std::optional<Outcome> least_memory;  // where nothing fits: what comes nearest, as far as it was simulated
  std::string out_of_memory_text;       // of that one: rank, moment, the largest holders
  int64_t candidates = 0, simulated = 0;  // legal ones; those that could have been among the best
};

// Searches all candidates of the workload's search at one batch. What cannot be among the best or on the
// frontier by its bounds is not simulated; the result is that of simulating everything (the frontier's within
// the tolerance), whatever the number of threads. Throws InvalidInput where no configuration is legal, naming
// the reasons, and for a batch or `best` below 1.
Plan search(const Workload& workload, int64_t samples_per_gpu, const SearchOptions& options);

}  // namespace bigmac
