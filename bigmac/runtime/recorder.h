#pragma once

#include <chrono>
#include <functional>
#include <utility>

#include "bigmac/profile/event_log.h"
#include "bigmac/schedule/table.h"
#include "bigmac/timeline/recording.h"

namespace bigmac {

// Seconds on the clock that all ranks of one machine share.
inline double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

struct RecorderOptions {
  std::function<int64_t()> held{};  // bytes this rank's operators hold; none: not known
  EventLog* log = nullptr;          // where all is written while it happens, if anywhere
};

// What one rank did in a step, on its own clock.
struct RowRecord {
  Timeline::Row row{};
  MemoryCurve memory{};  // at the begin and end of each operator
};

// Collects it while it runs.
class Recorder {
 public:
  Recorder(const Schedule& schedule, int rank, RecorderOptions options);

  void begin_operator(const Operator& op);
  // Says what begins now for the current operator, and returns its start: what an operator does follows
  // without gaps, so that the little in between counts for what comes next.
  double begin(Activity activity, int peer = -1);
  // Ends what began at `start`.
  void computed(double start);
  void spent(Activity activity, int peer, double start, int64_t bytes = 0);

  RowRecord take() { return std::exchange(record_, {}); }

 private:
  void note_held(double time);
  void log_items(const Share& share);

  const Schedule& schedule_;
  RecorderOptions options_;
  std::vector<int64_t> stage_of_chunk_;
  Operator op_{};
  double ended_ = 0;  // what came before, in this operator
  Event event_{};     // what is the same in all events of the operator
  RowRecord record_;
};

}  // namespace bigmac
