#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "bigmac/schedule/operator.h"
#include "bigmac/schedule/step.h"

namespace bigmac {

// The items of an encoder or generator that one rank runs in one operator, all of one unit. An encoder's
// forward and backward share them.
struct Share {
  int32_t module = 0;  // in Step::modules
  int32_t unit = 0;    // microbatches [unit * size, (unit + 1) * size), as far as there are
  int32_t rank = 0;
  uint32_t first = 0;  // its items: `count` numbers from Shares::items[first]
  uint32_t count = 0;

  bool operator==(const Share&) const = default;
};

struct Shares {
  std::vector<Share> list;      // by module, unit, rank
  std::vector<uint32_t> items;  // numbers in NestedModule::items

  std::span<const uint32_t> items_of(const Share& share) const {
    return {items.data() + share.first, share.count};
  }
  bool operator==(const Shares&) const = default;
};

// One unit of an encoder or generator: at most one operator a rank, all at the same cut of the backbone's
// table. `place[rank]` is the position in that rank's row at which its operator stands, or would stand if the
// rank has a share; what the unit exchanges is exchanged there, on every rank.
struct Unit {
  int32_t module;  // in Step::modules
  Phase phase;
  int64_t index;
  std::vector<int64_t> place;

  bool operator==(const Unit&) const = default;
};

// The global schedule: every rank's operators in the order in which it runs them.
struct Schedule {
  Step step;
  std::vector<Operator> operators;  // the rows, one behind the other
  std::vector<int64_t> row_begin;   // P + 1 offsets into `operators`
  Shares shares;
  std::vector<Unit> units;          // in the order in which they cut the table; none where it is not cut
  std::vector<int64_t> overlapped;  // offsets of forwards that may run together with the backward behind them

  int ranks() const { return int(step.ranks); }
  std::span<const Operator> row(int rank) const {
    return {operators.data() + row_begin[rank], operators.data() + row_begin[rank + 1]};
  }
  const NestedModule& module_of(const Share& share) const { return step.modules[share.module]; }

  bool operator==(const Schedule&) const = default;
};

// Total size of a share's items.
double size_of(const Schedule& schedule, const Share& share);

// "backbone F chunk 0 microbatch 3"; "image F unit 1 items 3,7 of microbatch 8, 2 of microbatch 9", an item's
// number counted within its microbatch.
std::string describe(const Schedule& schedule, const Operator& op);

// The items of a share as "8.3 8.7 9.2": microbatch and number within it.
std::string item_list(const Schedule& schedule, const Share& share);

}  // namespace bigmac
