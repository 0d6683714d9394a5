#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "bigmac/profile/event_file.h"

namespace bigmac {

// What an event file holds: one step of one rank, as far as it got.
struct EventStep {
  std::string file;
  Profiled of;
  int64_t step = 0, microbatches = 0;
  double began = 0, ended = 0;  // on the rank's clock; ended: 0 where the step did not end
  double utc = 0;               // what that clock is behind seconds since 1970
  ClockFit clock{};
  Doing doing{};  // of a step that did not end: the last that is known of the rank
  std::vector<Event> events{};
  std::vector<std::string> notes{};  // what is missing
};

// Whether a file begins as one of events does; `beginning`: its first bytes, inflated.
bool begins_as_events(std::string_view beginning);

// Reads a file, plain or gzip, also while it is written. One that is cut off gives the events before the cut,
// and a note. Throws InvalidInput naming the file and what is wrong for one that is none, is of another
// version, or is cut off before its first event; a file in which no step was begun, or in which another one
// was begun while it was read, has step -1.
EventStep read_events(const std::string& path);

}  // namespace bigmac
