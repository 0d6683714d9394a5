#pragma once

#include <map>
#include <vector>

#include "bigmac/plan/configuration.h"

namespace bigmac {

// How many configurations cannot be run for one kind of reason, and the first of them.
struct Refused {
  int64_t count = 0;
  std::string example;

  bool operator==(const Refused&) const = default;
};

struct Candidates {
  std::vector<Configuration> legal;
  std::map<std::string, Refused> refused;  // by Refusal::kind
};

// All configurations of a search. What the search leaves open is all that makes sense:
//   tensor        1, 2, 4, .. to a node         chunks      1, 2, 3, 4, 6, 8
//   pipeline      1, 2, 3, .. 64 as GPUs divide, with 2 layers a rank or more      expert      1, 2, 4, ..
//   experts microbatch    1, 2, 4 samples               bases       1f1b, zb-h1, interleaved, zb-v,
//   dualpipe-v arrangements  nested, nested-fill, megatron; llm-only without modules. What there is to
//   compare with
//                 (three-phase, optimus, disttrain) only where it is named
//   W             as nesting takes it, and 2 where that is enough (one chunk, no generator)
//   recompute     none, selective, full of each module that keeps activations
//   disttrain     encoder and generator GPUs in whole nodes, with what is sharded also whole there
Candidates candidates(const Workload& workload, int64_t samples_per_gpu, const Search& search);

// What a search takes for a list that it leaves open.
Search filled(const Search& search, const Workload& workload);

}  // namespace bigmac
