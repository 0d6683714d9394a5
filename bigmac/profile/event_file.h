#pragma once

#include <cstddef>
#include <string>
#include <type_traits>

#include "bigmac/profile/event.h"

namespace bigmac {

// The beginning of an event file; behind it a JSON text of `declaration` bytes (declaration.h), then from
// `first` on the events. Numbers are little-endian. Everything is where it belongs at every moment, so the
// file of a process that was killed holds all that the process had done.
struct EventHeader {
  char magic[8] = {'b', 'i', 'g', 'm', 'a', 'c', 'E', 'V'};
  uint32_t version = 1, event_bytes = sizeof(Event);
  int64_t step = -1;            // of training; -1: none yet
  int64_t microbatches = 0;     // M of the step
  double began = 0, ended = 0;  // seconds on the rank's clock; ended: 0 while the step runs
  double utc = 0;               // what that clock is behind seconds since 1970
  uint64_t first = 0;           // offset of the events
  uint64_t count = 0;           // of events that are whole
  uint64_t left_out = 0;        // of events that found no room
  ClockFit clock{};             // beside rank 0's
  Doing doing{};
  uint32_t declaration = 0;
  uint32_t unused = 0;
};
static_assert(std::is_trivially_copyable_v<EventHeader>);

// What stands at the beginning of a step's events.
struct StepBegin {
  int64_t step = 0, microbatches = 0;
  double began = 0, utc = 0;
  ClockFit clock{};
};

// A file of events that is memory: writing one is a store, and what was written outlives the process.
class EventFile {
 public:
  // Throws Failure naming the file and the reason.
  EventFile(std::string path, const Profiled& of);
  ~EventFile();
  EventFile(const EventFile&) = delete;

  // Empties it for a step.
  void begin(const StepBegin& step);
  // Where the disk has no room for more events, they are counted as left out.
  void add(const Event& event);
  void doing(const Doing& doing) { header().doing = doing; }
  void began(double time) { header().began = time; }
  void end(double ended);

 private:
  int make_room(size_t events);  // 0, or the error
  [[noreturn]] void fail(int error) const;
  EventHeader& header() { return *reinterpret_cast<EventHeader*>(memory_); }
  Event* events() { return reinterpret_cast<Event*>(memory_ + first_); }

  std::string path_, declaration_;
  int file_ = -1;
  std::byte* memory_ = nullptr;
  size_t bytes_ = 0, first_ = 0, room_ = 0, count_ = 0;
  bool full_ = false;  // the disk
};

}  // namespace bigmac
