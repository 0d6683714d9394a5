#pragma once

#include <memory>
#include <string>
#include <vector>

#include "bigmac/profile/event_file.h"

namespace bigmac {

// The last steps of one rank, as files rank<R>-<slot>.events in a folder, a step each, the oldest written
// over. What a rank did last is there after a crash, and what it waits for while it hangs.
class EventLog {
 public:
  // `steps` files in `folder`, which is made if need be. What lies there of a run before goes to `before` in
  // it, in place of what lies there: this rank's files, and by rank 0 those of ranks that there are no more.
  // Throws Failure naming the file and the reason.
  EventLog(const std::string& folder, const Profiled& of, int64_t steps);

  void begin(const StepBegin& step);
  void add(const Event& event) { file().add(event); }
  void doing(const Doing& doing) { file().doing(doing); }
  void began(double time) { file().began(time); }
  void end(double ended) { file().end(ended); }

 private:
  EventFile& file() { return *files_[current_]; }

  std::vector<std::unique_ptr<EventFile>> files_;
  size_t current_ = 0, begun_ = 0;
};

}  // namespace bigmac
