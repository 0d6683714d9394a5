#pragma once

#include <memory>

#include "bigmac/profile/event_log.h"
#include "bigmac/runtime/align_clocks.h"
#include "bigmac/runtime/gather.h"
#include "bigmac/train/options.h"

namespace bigmac::train {

// What a rank of a pipeline did in its last step, and, of the steps that options cover, all of it as events
// (bigmac/profile) that outlive the process.
class Profiler {
 public:
  // All ranks of the pipeline make theirs together. Throws Failure for a folder that cannot be written.
  Profiler(const ProfileOptions& options, const Step& declared, Transport& pipeline, int64_t replica,
           int64_t replicas);

  // A step in the order of its parts. All ranks call these together.
  void begin(int64_t step);  // makes its batch
  void start();              // all ranks have theirs; its first operator is next
  // What the row took; since `ran` it exchanged with the other ranks, behind its last operator.
  void end(RowRecord record, const Schedule& schedule, double ran);
  void begin_update();
  void end_update();

  // Where the step's operators are written while they run; none where the step is not covered.
  EventLog* log() { return covered_ ? log_.get() : nullptr; }
  double seconds() const { return step_.ended - step_.began; }

  // The last step on all ranks of the pipeline, on its rank 0's clock. All of them call it together.
  MeasuredRanks gather();

 private:
  void end_activity(Activity activity, double start);

  ProfileOptions options_;
  Transport& pipeline_;
  int64_t microbatches_;
  ClockAligner clocks_;
  std::unique_ptr<EventLog> log_;
  bool covered_ = false;
  int64_t covered_steps_ = 0;
  double activity_began_ = 0;
  RankStep step_;
};

}  // namespace bigmac::train
