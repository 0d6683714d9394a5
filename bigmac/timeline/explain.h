#pragma once

#include <optional>
#include <vector>

#include "bigmac/schedule/dependencies.h"
#include "bigmac/timeline/timeline.h"

namespace bigmac {

// What an operator waited for last before it started.
enum class Cause : uint8_t {
  start,  // nothing: it could start with the step
  row,    // the operator before it in its row
  input,  // an operator of another row (or its own) whose output it needs
};

// An operator of the critical path, and what was between the one before it and its start.
struct PathStep {
  int rank = 0;
  Slice slice;
  Cause cause = Cause::start;
  double gap = 0;  // from the end of the path's operator before it, or the step's start: a message, an
                   // exchange of the rank's own (Cause::row), or unexplained
};

// The chain of operators that the step's end hangs on, from its start: each began when the one before it had
// ended (and its message had arrived). Where an operator waited for a peer, by its intervals, the chain goes
// to that rank; what left in one exchange with a later operator's output (links.h: batched) hangs on that
// one. To shorten the step, shorten this.
std::vector<PathStep> critical_path(const Schedule& schedule, const Timeline& timeline);

// An operator, and the rank that ran it.
struct RanOn {
  int rank = 0;
  Slice slice;
};

// A stretch in which a rank ran nothing.
struct Wait {
  int rank = 0;
  double start = 0;
  double end = 0;
  std::optional<Slice> next;  // the operator that ran behind it; none at the end of the row
  std::optional<RanOn>
      input;  // of the other ranks' operators whose output it needed, the one that ended last
  // Of the operators that this input hung on in turn, the one that took most of the wait, and how much.
  std::optional<RanOn> culprit;
  double culprit_time = 0;

  double length() const { return end - start; }
};

// Each rank's longest waits, `most` a rank, the longest first; of equal ones the earlier.
std::vector<std::vector<Wait>> longest_waits(const Schedule& schedule, const Timeline& timeline, size_t most);

}  // namespace bigmac
