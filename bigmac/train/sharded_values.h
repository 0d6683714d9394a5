#pragma once

#include <functional>
#include <memory>

#include "bigmac/runtime/group.h"

namespace bigmac::train {

// How the values of a module with full sharding come together: all its ranks at the same place of the table,
// or by whoever needs them, without the others.
enum class Gather { collective, one_sided };
Gather gather_from_name(const std::string& text);  // InvalidInput with the nearest known name
std::string name(Gather gather);

// A flat tensor of which this rank keeps one shard. The whole has memory from start_gather() to free() alone;
// all views of it, also those that a graph has saved, see the values that were gathered last. As in FSDP
// (Zhao et al. 2023), the storage stays and its memory goes.
class ShardedValues {
 public:
  // `whole` [members * shard], the same on all members of the group, which must outlive this; its memory is
  // freed. All members make theirs together.
  ShardedValues(torch::Tensor whole, Group& group, Gather gather);

  const torch::Tensor& own() const { return own_; }  // [shard]
  // With collective gathering, all members start the same gathers and the group's other collectives in the
  // same order; one-sided, nobody else takes part.
  void start_gather();   // nothing where it has been started
  void finish_gather();  // starts it first where it has not been
  void free();
  bool has_memory() const { return has_memory_; }

  // Calls `write`, which may write to own(), while nobody reads it. All members call it together.
  void update(const std::function<void()>& write);

  // One-sided: what others read, and where they add to sums.
  Window& window() { return *window_; }

 private:
  torch::Tensor whole_, own_;
  Group& group_;
  std::unique_ptr<Window> window_;
  std::unique_ptr<Pending> pending_;
  bool has_memory_ = true;
};

// Returns when all members have called it.
void wait_for_all(Group& group);

}  // namespace bigmac::train
