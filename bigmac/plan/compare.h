#pragma once

#include "bigmac/plan/search.h"

namespace bigmac {

// A system at one batch: what it comes to in its best configuration, or why it has none.
struct SystemOutcome {
  Arrangement system = Arrangement::nested;
  std::optional<Outcome> best;
  std::optional<Outcome> least_memory;  // where nothing fits: what comes nearest
  bool is_legal = false;                // any configuration, whatever its memory
  std::string why_not;                  // why it does not fit, or why no configuration is legal
};

struct ComparedBatch {
  int64_t samples_per_gpu = 0;
  std::vector<SystemOutcome> systems;  // in the order asked for
};

struct Comparison {
  std::vector<Arrangement> systems;
  std::vector<ComparedBatch> batches;
};

// Every system at every batch of the workload, each in the configuration with the shortest step that fits the
// same memory. All choose from the workload's search; where that leaves the bases open, from 1f1b and
// interleaved, which all of these systems are described with. `progress` is called with batches and systems
// done of how many.
Comparison compare(const Workload& workload, const std::vector<Arrangement>& systems,
                   const std::vector<int64_t>& samples_per_gpu, int threads,
                   const std::function<void(int64_t, int64_t)>& progress);

// megatron, disttrain, three-phase, optimus, nested, nested-fill, as far as the workload's search names them.
std::vector<Arrangement> compared_systems(const Workload& workload);

}  // namespace bigmac
