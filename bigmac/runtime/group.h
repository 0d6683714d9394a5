#pragma once

#include <torch/types.h>

#include <memory>
#include <vector>

namespace bigmac {

// An exchange that has been started.
class Pending {
 public:
  virtual ~Pending() = default;
  // Blocks until it is done. Throws RankFailure once any rank of the transport has failed.
  virtual void wait() = 0;
};

// Shards that every member's owner has laid open: others read them, and add to the sums beside them, while
// the owner computes. Used by its rank's thread alone. A shard can be read until all members have dropped
// their windows.
class Window {
 public:
  virtual ~Window() = default;

  // Starts to copy all members' shards, one behind the other, into `values` [members * shard]. No other rank
  // takes part in it.
  virtual std::unique_ptr<Pending> start_gather(torch::Tensor values) = 0;

  // Adds each member's part of `values` [members * shard], of any dtype that can be summed, to that member's
  // sum, and returns at once; values must not be written to any more. Turns count from 0 through a step over
  // all ranks together, each taken by exactly one rank. A sum takes them in their order, whenever they
  // arrive, so that its bits do not depend on it. Throws InvalidInput where a turn is added twice.
  virtual void add(int64_t turn, torch::Tensor values) = 0;

  // Waits until this member's sum has taken turns 0..turns-1, hands it over in their dtype, and starts anew
  // at zero with turn 0. Undefined where turns is 0. Every member calls it once a step, after its own turns;
  // those that are ahead may add to the next step already. Throws InvalidInput where the step has other
  // turns.
  virtual torch::Tensor take_sum(int64_t turns) = 0;

  // Replaces this member's shard, which is read where it lies. Nobody may read while it does: call it between
  // barriers.
  virtual void set_shard(const torch::Tensor& shard) = 0;
};

// Some ranks of a transport, for collectives. All members start the same collectives of a group in the same
// order. Those of different groups may overlap and finish in any order; none needs the rank's thread to go
// on. Tensors are contiguous, of one dtype and device, and must not be touched until wait() has returned.
// Sums have the same bits on all members and in every run of the same members; those of 16-bit floats are
// taken in float32 and rounded once. Tensors that do not fit throw InvalidInput.
class Group {
 public:
  virtual ~Group() = default;

  virtual const std::vector<int>& ranks() const = 0;  // of the transport, ascending
  virtual int index() const = 0;                      // of this rank in it
  int size() const { return int(ranks().size()); }

  // Sums over the members, in place.
  virtual std::unique_ptr<Pending> start_all_reduce(torch::Tensor values) = 0;
  // values [members * n]; member i's shard [n] becomes the sum of all members' part i. `values` is used up.
  virtual std::unique_ptr<Pending> start_reduce_scatter(torch::Tensor values, torch::Tensor shard) = 0;
  // The members' shards [n] one behind the other, into values [members * n].
  virtual std::unique_ptr<Pending> start_all_gather(torch::Tensor shard, torch::Tensor values) = 0;

  // Lays `shard` [n] open to the others; n, dtype and device are the same on all. All members call it.
  virtual std::unique_ptr<Window> make_window(torch::Tensor shard) = 0;
};

}  // namespace bigmac
