#pragma once

#include <cstdint>
#include <string_view>

#include "bigmac/schedule/table.h"
#include "bigmac/timeline/explain.h"

namespace bigmac {

// Why a rank ran nothing, in the order in which it is decided:
//
//   drain      its row is done
//   order      what it needed stood behind other messages for most of the wait
//   transfer   it moved bytes itself for most of the wait
//   exchange   nothing was missing, but it was blocked in an exchange with a rank that came late to it
//   host       nothing of another rank was missing: launches, data loading, the program between operators
//   link       what it needed had been made; it was on its way for most of the wait
//   encoder    an encoder was late: most of the wait hung on it
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

// Asks the intervals of the wait's rank, which must be in order of time. `first_backward`: the start of the
// row's first backbone backward.
WaitKind kind_of(const Wait& wait, const Timeline::Row& row, double first_backward);

}  // namespace bigmac
