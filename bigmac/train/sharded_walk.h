#pragma once

#include <map>
#include <vector>

#include "bigmac/train/parameter_unit.h"
#include "bigmac/train/sharded_plan.h"

namespace bigmac::train {

// Gathers, frees and reduces fully sharded modules while a rank goes through its row. A gather is started one
// operator before what it is for, if the module's values are not in use until then; collectively reduced
// gradients are waited for one operator later. So at most two modules' values, and of a module one operator's
// gradients, are whole at a time.
//
// Why ranks cannot wait for each other in a circle, however long operators take:
//
//   One-sided: a gather, a part of a sum, takes no other rank's thread, so a rank waits for no more than the
//   table says, until it has all sums: when all rows are through.
//
//   Collective: number the units of sharded modules 1, 2, ... as they cut the table, and let an operator's
//   level be the number of units whose place on its rank is not behind it. Places are cuts that are closed
//   under predecessors and follow each other on every rank, so an operator's predecessors are of its level or
//   lower. Unit k's gather is waited for at its place, and completes when each rank has come to its own place
//   of k, for which it needs operators of levels below k and gathers before k alone; its reduction is waited
//   for behind that, and completes when each has run its operator of unit k. Within a level the table's own
//   order holds, which has no circle. Started, but not waited for, are only things in the same order of units
//   on all ranks: one group a module, whose k-th gather follows its reduction of unit k-1.
class ShardedWalk {
 public:
  struct Part {
    ParameterUnit* unit;
    int module;  // in Step::modules
  };
  ShardedWalk(const std::vector<Part>& parts, Gather gather);

  // All but begin() follow the row: before and after each position, finish() behind the last.
  void begin(const Schedule& schedule, int rank);
  void before(int64_t position);
  void after(int64_t position);
  // Returns when this rank's shards have the gradients of all ranks of the pipeline.
  void finish();

 private:
  ParameterUnit& unit_of(const ShardedUse& use) { return *units_.at(use.module); }
  void take_part_until(int64_t position);
  void start_next(int64_t position);
  void push(const ShardedUse& use);

  std::map<int32_t, ParameterUnit*> units_;  // by Step::modules
  Gather gather_;
  const Schedule* schedule_ = nullptr;
  std::vector<ShardedUse> uses_;
  size_t next_ = 0;  // of uses_
  const ShardedUse* running_ = nullptr;
  std::map<int32_t, int64_t> pushed_;  // collective: where a module's gradients were pushed
};

}  // namespace bigmac::train
