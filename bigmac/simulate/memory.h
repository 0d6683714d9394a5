#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bigmac/schedule/table.h"
#include "bigmac/timeline/timeline.h"

namespace bigmac {

// Bytes that a rank holds under a name: "parameters", "optimizer states of image".
struct Holder {
  std::string what;
  double bytes = 0;

  bool operator==(const Holder&) const = default;
};

// What operators and ranks hold. Lists by stage hold one value for all stages or one a stage; lists by module
// one value for all modules or one a module, none: nothing. What is held from one moment to another is held
// at the first and no longer at the second.
struct Bytes {
  std::vector<std::vector<Holder>> constant{};  // by rank, held all through the step; one list stands for all
  std::vector<double> stage{0};  // a microbatch's activations, from its forward's start to the end of its
                                 // backward (of W, where that is split)
  std::vector<double> stage_work{0};  // more while a backward runs, of a split one from I's start to W's end,
                                      // since both need it: what recompute brings back
  std::vector<double> forward_work{0};  // more while a forward runs
  std::vector<double> item{};       // by Step::modules: of an item of size 1, from its forward's start to its
                                    // backward's end; a generator's while its operator runs, a frozen
                                    // encoder's while its forward runs
  std::vector<double> item_work{};  // by Step::modules, more while a backward or generator operator runs
  // By Step::modules: what an item of size 1 hands over, whatever rank it comes from.
  //   encoder    its output lies on the rank of stage 0 from the encoder's end to the end of its microbatch's
  //              forward there; its gradient on the encoder's rank from the end of stage 0's backward (or I)
  //              to the end of the encoder's; a frozen one gets none
  //   generator  its input lies on the generator's rank from the end of the last stage's forward to the end
  //              of the generator's operator; the gradient on the rank of the last stage from there to the
  //              end of the backward (or I)
  std::vector<double> item_out{};
  double boundary = 0;  // a microbatch's activation (or gradient) between stages of different ranks: held by
                        // the receiver from the sender's end to the end of the operator that takes it
};

// What one rank holds over a step.
struct RankMemory {
  double constant = 0;
  double peak = 0;
  double peak_time = 0;        // first moment at which that much is held (to 1 in 10^12)
  std::optional<Operator> at;  // the operator that runs then
};

// By rank. Runs along the timeline of the schedule. Throws InvalidInput for negative or non-finite bytes,
// lists of a wrong length, and a timeline that is not of this schedule.
std::vector<RankMemory> peak_memory(const Schedule& schedule, const Timeline& timeline, const Bytes& bytes);

// Every change, the first at the timeline's start: the bytes that a rank holds from `time` on. Throws as
// above, and for a rank that is not there.
struct MemoryPoint {
  double time = 0;
  double bytes = 0;
};
std::vector<MemoryPoint> memory_over_time(const Schedule& schedule, const Timeline& timeline,
                                          const Bytes& bytes, int rank);

// The holders of a rank at a time, largest first, without those of 0 bytes: its constants by name, and
//   activations of stage 3 (4 microbatches)           image activations (12 items)
//   recomputed activations of stage 3                 recomputed activations of image
//   forward workspace of stage 3                      image outputs, image output gradients
//   received activations of stage 3 (2 microbatches)  picture inputs, picture input gradients
//   received gradients of stage 3 (1 microbatch)
std::vector<Holder> holders_at(const Schedule& schedule, const Timeline& timeline, const Bytes& bytes,
                               int rank, double time);

// Empty where no rank ever holds more than `limit` bytes. Else the rank with the largest peak (the first of
// equal ones), that peak, when the rank first exceeds the limit, in what operator ("between operators" where
// none runs), and the five largest holders at the peak, as lines of text, times followed by `unit`:
//   out of memory on rank 0: 93.1 GiB of 80.0 GiB, first at 1.84 in backbone B chunk 0 microbatch 3
//     41.2 GiB  activations of stage 0 (4 microbatches)
//     ...
std::string explain_out_of_memory(const Schedule& schedule, const Timeline& timeline, const Bytes& bytes,
                                  double limit, std::string_view unit = "");

// Three digits, in units of 1024: "93.1 GiB", "512 MiB", "1.50 KiB", "17 bytes".
std::string bytes_text(double bytes);

}  // namespace bigmac
