#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "bigmac/schedule/operator.h"
#include "bigmac/schedule/step.h"

namespace bigmac {

// One group of P microbatches of an encoder or generator: at most one operator a rank, all at the same cut of
// the backbone's table. `place[rank]` is the position in that rank's row at which its operator stands, or
// would stand if its microbatch has one; what the unit exchanges is exchanged there, on every rank.
struct Unit {
  Module module;
  Phase phase;
  int64_t index;  // microbatches [index * P, (index + 1) * P)
  std::vector<int64_t> place;

  bool operator==(const Unit&) const = default;
};

// The global schedule: every rank's operators in the order in which it runs them.
struct Schedule {
  Step step;
  std::vector<Operator> operators;  // the rows, one behind the other
  std::vector<int64_t> row_begin;   // P + 1 offsets into `operators`
  std::vector<Unit> units;          // in the order in which they cut the table

  int ranks() const { return int(step.ranks); }
  std::span<const Operator> row(int rank) const {
    return {operators.data() + row_begin[rank], operators.data() + row_begin[rank + 1]};
  }
};

}  // namespace bigmac
