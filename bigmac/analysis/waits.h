#pragma once

#include <string>
#include <vector>

#include "bigmac/analysis/causes.h"

namespace bigmac {

// What ranks wait for, over all waits of a cause.
struct WaitGroup {
  std::string cause;  // "slow rank 2", "late embedding", "warm-up", ...
  int64_t count = 0;
  double share = 0;  // of all ranks' time, P * step
  // The longest of them, in the timeline's unit from its start.
  int rank = -1;
  double start = 0, length = 0;
  std::string needs{};  // "LLM F stage 1 microbatch 4 (rank 1)", what came last of what it waited for
};

// The most expensive first. Of a wait goes to a finding what the operator that took most of it took more for
// that; the rest to what was waited for: an encoder's output on stage 0, a generator's on the last stage, a
// message on its way, or behind others; else to warm-up (before the rank's first backward), cool-down (behind
// its last forward), and the pace of other stages in between. Together they are all of the ranks' time
// outside operators and transfers. Of a recording that is not whole, waits for what was not recorded and what
// is behind a rank's last operator have groups of their own.
std::vector<WaitGroup> group_waits(const Schedule& schedule, const StepModel& model, const Causes& causes);

// Per rank: busy, transfer, order, wait and idle add up to the step (timeline.h). A recording without waits
// of its own gets them from what its operators needed.
std::vector<RankTime> rank_parts(const Recording& recording, const StepModel& model);

// What the step's end hangs on (explain.h), as shares of the step.
struct PathPart {
  std::string what;  // "LLM B stage 3 (rank 3)", "image F", "messages", "between operators"
  int64_t count = 0;
  double share = 0;
};
struct PathMember {
  int rank = 0;
  std::string what;  // the operator
  double start = 0, length = 0;
};
struct PathSummary {
  int64_t operators = 0;
  std::vector<PathPart> parts;      // the largest first; they add up to 1
  std::vector<double> ranks;        // by rank, share of the step in its operators
  std::vector<PathMember> longest;  // at most five
};
PathSummary summarize_path(const Schedule& schedule, const StepModel& model, const Kinds& kinds);

}  // namespace bigmac
