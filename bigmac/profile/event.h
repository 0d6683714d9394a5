#pragma once

#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include "bigmac/schedule/step.h"
#include "bigmac/timeline/clock_fit.h"
#include "bigmac/timeline/timeline.h"

namespace bigmac {

// What a rank did, or does. Numbers of a file's format.
enum class Activity : uint8_t {
  none = 0,      // between two
  compute = 1,   // inside the model, for an operator
  send = 2,      // packs a message and hands it over
  receive = 3,   // takes one that is there
  wait = 4,      // for one that is not
  exchange = 5,  // with several ranks: gathers parameters, reduces gradients
  item = 6,      // takes no time: an item of the share that is `op.index`
  data = 7,      // makes the step's batch, until all ranks have theirs
  update = 8,    // clips and updates parameters
};
// As timelines have it: all but waits moves bytes.
Spent spent_of(Activity activity);
std::string_view name(Activity activity);  // compute, send, receive, ...

// One of them, on the rank's own clock.
struct Event {
  double start = 0, end = 0;                  // seconds; of an item: start is its size
  int64_t held_before = -1, held_after = -1;  // bytes the rank holds, of compute; -1: not counted
  int64_t bytes = 0;                          // of the message that was sent or received
  Operator op{};                              // it was done for; index: position in the schedule, or share
  uint32_t microbatch = 0;                    // as declared; of compute (backbone) and of items
  uint32_t number = 0;                        // of an item in its module; else the share's unit, or the stage
  int16_t module = -1;                        // in the declaration; -1: the backbone
  int16_t peer = -1;
  Activity activity = Activity::none;
  uint8_t unused[3]{};
};
static_assert(sizeof(Event) == 64 && std::is_trivially_copyable_v<Event>);

// What a rank does at the moment.
struct Doing {
  double since = 0;
  Operator op{};
  uint32_t microbatch = 0, number = 0;  // as of Event
  int16_t module = -1;
  int16_t peer = -1;
  Activity activity = Activity::none;  // none: between two
  uint8_t unused[3]{};
};
static_assert(sizeof(Doing) == 32 && std::is_trivially_copyable_v<Doing>);

// Of whom the events are: the same in all files of a run but for `rank`.
struct Profiled {
  int32_t rank = 0, ranks = 1, chunks = 1;
  struct Module {
    std::string name;
    bigmac::Module kind = bigmac::Module::encoder;
    bool trained = true;
  };
  std::vector<Module> modules{};
};

}  // namespace bigmac
