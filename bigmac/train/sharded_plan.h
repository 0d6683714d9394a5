#pragma once

#include <vector>

#include "bigmac/schedule/table.h"
#include "bigmac/train/sharded_values.h"

namespace bigmac::train {

// One use of a fully sharded module's values on a rank.
struct ShardedUse {
  int32_t module = 0;    // in Step::modules
  int64_t position = 0;  // in the rank's row, of the operator that it is for; where there is none, of the one
                         // it comes before, or the row's length
  bool runs = false;     // whether the rank has a share: else it takes part for the others' sake
  bool gathers = true;   // false: the values of the use before are still there
  bool frees = true;     // false: they stay for the next use
  bool reduces = false;  // gradients come of it
  int64_t turn = 0;      // one-sided: theirs in the sums

  bool operator==(const ShardedUse&) const = default;
};

// A rank's uses, in the order of its row. `is_sharded`: by Step::modules.
//
//   collective  one for each unit (Schedule::units) of such a module, on every rank alike: position and runs
//               alone differ. Values stay where on every rank nothing runs between two uses.
//   one-sided   one for each operator of this rank. Values stay where on this rank nothing runs between two.
//
// Throws InvalidInput where values would be gathered together in a table without units.
std::vector<ShardedUse> sharded_uses(const Schedule& schedule, int rank, const std::vector<bool>& is_sharded,
                                     Gather gather);

// How many turns a module's sums have: its shares take one each, as Shares::list has them, by unit and rank.
// None where the module leaves no gradients.
int64_t turns_of(const Schedule& schedule, int32_t module);

}  // namespace bigmac::train
