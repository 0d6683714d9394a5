#pragma once

#include <string>
#include <vector>

#include "bigmac/analysis/kinds.h"
#include "bigmac/analysis/options.h"
#include "bigmac/analysis/step_model.h"

namespace bigmac {

// What makes a step longer than its operators and its schedule explain.
enum class Fault : uint8_t {
  straggling_item,      // an item far larger than the others of its module
  long_microbatch,      // one that takes longer than others on every stage
  straggling_operator,  // an operator that once took far longer than its kind
  slow_rank,            // all operators of a rank take longer
  slow_stage,           // a stage's operators take longer than those of the others
  misplaced_work,       // encoder or generator work that few ranks do
  slow_link,            // messages between two ranks take longer than between the others
  message_order,        // messages stood behind others in their queue (Spent::order)
  uneven_units,         // units' slowest ranks take longer than the units' mean
  late_embedding,       // stage 0 waits for encoder outputs
  late_generator,       // the last stage's backward waits for a generator
  messages,             // what messages take on all links
  exchanges,            // ranks exchange messages and do nothing else meanwhile
  between_operators,    // ranks that could run an operator have not begun yet: host, launches
};
std::string_view name(Fault fault);  // "straggling item", "slow rank", ...

struct Finding {
  Fault fault = Fault::slow_rank;
  double cost = 0;           // share of the step
  std::string text{};        // "rank 2 is slow: its operators take 1.8x those of other ranks"
  std::string advice{};      // what to do about it; empty where suggestions have it
  int rank = -1, peer = -1;  // -1 where it is of no one rank
  int64_t stage = -1, microbatch = -1, item = -1;
  std::string module{};  // of encoders and generators
  double factor = 0;     // times what it should be, 0 where that is not it
};

// A fault is named from here on, as a share of the step.
inline constexpr double kLeastCost = 0.01;

// How a step's length divides. What a fault costs is how much shorter the step is without it, all faults
// before it in the enumeration taken out as well: so `operators` + `ramp` + `ends` and the findings' costs
// add up to 1. Messages, exchanges and time between operators are always taken out.
struct Causes {
  std::vector<Finding> findings;    // the most expensive first
  double operators = 0;             // of the mean rank, once nothing is slower than its like
  double ramp = 0;                  // warm-up and cool-down, and what else the order of operators leaves idle
  double ends = 0;                  // before the first operator and behind the last
  std::vector<int32_t> blamed;      // by operator of the model, the finding that its time is due to; or -1
  std::vector<float> excess;        // by operator, the part of its time that is due to it
  std::vector<double> stage_times;  // by stage, as recorded: a microbatch's mean over all phases
};
Causes find_causes(const Schedule& schedule, const StepModel& model, const Layout& layout = {});

}  // namespace bigmac
