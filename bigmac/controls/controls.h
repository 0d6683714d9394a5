#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bigmac/schedule/costs.h"
#include "bigmac/simulate/simulate.h"
#include "bigmac/timeline/recording.h"

namespace bigmac {

// An encoder or generator: what a microbatch's items take together, and how many equal ones they are. The
// step has none where both times are 0.
struct ControlledModule {
  double forward = 0;
  double backward = 0;
  int64_t items = 1;

  bool exists() const { return forward > 0 || backward > 0; }
};

// A step as a few numbers that can be moved: what the options of `bigmac simulate` of the same names say.
struct Controls {
  int64_t ranks = 8;                              // --pp
  int64_t chunks = 1;                             // --vpp
  int64_t microbatches = 32;                      // --microbatches
  std::optional<Base> base{};                     // --base; none: 1f1b with one chunk, else interleaved
  int64_t group = 0;                              // --group; 0: P
  Arrangement arrangement = Arrangement::nested;  // --schedule
  int64_t warmup_units = 0;                       // --warmup-units; 0: as many as it takes
  int64_t generator_unit = 0;                     // --generator-unit; 0: P
  double forward = 1, backward = 2;               // --backbone, of a chunk
  std::optional<double> weight{};                 // the weights' part of the backward; none: half
  double latency = 0;                             // --latency
  ControlledModule encoder{}, generator{};        // --encoder, --generator, --items
};

// The most operators that are simulated between two moves of a slider.
inline constexpr int64_t kMostControlled = 3'000'000;

// The step as `bigmac simulate` with the options above makes it, its timeline and its figures. Throws
// InvalidInput for what is not legal, and for more than kMostControlled operators.
struct Controlled {
  Recording recording;
  StepReport report;
};
Controlled controlled(const Controls& controls);

// Such a call: "bigmac simulate --pp 8 --vpp 2 ...".
std::string command_of(const Controls& controls);

// The controls that come closest to a step, and in words what of the step they do not have: costs of uneven
// stages, uneven items, several encoders, an order of microbatches, a table of other hands.
struct NearestControls {
  Controls controls;
  std::vector<std::string> left_out;
};
NearestControls nearest_controls(const Step& step, const Costs& costs);

}  // namespace bigmac
