#pragma once

#include "bigmac/runtime/model.h"
#include "bigmac/train/sharded_walk.h"

namespace bigmac::train {

// What a unit's parameters belong to in a rank's row: a chunk of the backbone, all of its chunks (tied
// parameters), or a module of the step.
struct UnitPlace {
  Module kind = Module::backbone;
  int number = 0;  // chunk, or Step::modules; -1: all chunks
};

// Reduces gradients while the rest of the row runs: a unit's reduction starts behind the last operator that
// adds to its gradients, so that what is reduced early overlaps with the cool-down. Units with full sharding
// have their values gathered and freed on the way (ShardedWalk).
class Reducer : public RowObserver {
 public:
  struct Unit {
    ParameterUnit* unit;
    UnitPlace place;
  };
  explicit Reducer(const std::vector<Unit>& units, Gather gather = Gather::collective);

  // Begins a step: gradients are zero, nothing is reduced.
  void begin(const Schedule& schedule, int rank);
  void before(int64_t position, const Operator& op) override;
  void after(int64_t position, const Operator& op) override;
  // Reduces what is left, and waits for all.
  void finish();

 private:
  bool adds_to(const Operator& op, const UnitPlace& place) const;

  std::vector<Unit> units_, sharded_;
  ShardedWalk walk_;
  const Schedule* schedule_ = nullptr;
  std::vector<int64_t> last_;  // by unit: position in the row, -1: none
};

}  // namespace bigmac::train
