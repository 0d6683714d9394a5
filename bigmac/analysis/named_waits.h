#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "bigmac/analysis/step_model.h"

namespace bigmac {

// Why a rank ran nothing, by what took most of it (judge.h):
//
//   drain      its row is done
//   order      what it needed stood behind other messages
//   transfer   it moved bytes itself
//   exchange   nothing was missing, but it was blocked in an exchange with a rank that came late to it
//   host       nothing of another rank was missing: launches, data loading, the program between operators
//   link       what it needed had been made, and was on its way
//   encoder    an encoder was late: what took most of the wait, of those that the input hung on in turn
//   generator  likewise
//   fill       the pipeline fills: the wait is before the row's first backward, on another stage's forward
//   stage      another stage was late, in the steady state
enum class WaitKind : uint8_t {
  drain,
  order,
  transfer,
  exchange,
  host,
  link,
  encoder,
  generator,
  fill,
  stage
};
inline constexpr int kWaitKinds = 10;
std::string_view name(WaitKind kind);

// A stretch in which a rank ran nothing, in the timeline's unit from its start. Operators are numbers of the
// model, -1 for none.
struct NamedWait {
  WaitKind kind = WaitKind::host;
  double start = 0, end = 0;
  int32_t next = -1;   // ran behind it; none at the end of the row
  int32_t input = -1;  // of what that needs of other ranks, what ended last
  int32_t culprit =
      -1;  // of the operators that the input hung on in turn, the one that took most of the wait
  double culprit_time = 0;

  double length() const { return end - start; }
};

// By rank, in order of time; at most `most` over all ranks, of each rank its longest. Where what an operator
// needs was not recorded, that was late.
std::vector<std::vector<NamedWait>> named_waits(const StepModel& model, size_t most);

}  // namespace bigmac
