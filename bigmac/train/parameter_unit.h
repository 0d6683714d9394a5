#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "bigmac/runtime/transport.h"
#include "bigmac/system/part.h"
#include "bigmac/train/sharded_values.h"

namespace bigmac::train {

// What of a unit's parameters each of its ranks holds for itself alone.
//
//   replicated  nothing: values, gradients and optimizer states are whole on every rank
//   states      gradients are reduce-scattered at the end of the step, optimizer states (and float32 main
//               weights) are a shard, values are whole (Rajbhandari et al. 2020, stage 1)
//   full        values, also those that are not trained, are a shard too, gathered for each operator and
//               freed behind it; gradients are reduce-scattered behind each operator (stage 3)
enum class Sharding { replicated, states, full };
Sharding sharding_from_name(const std::string& text);  // InvalidInput with the nearest known name
std::string name(Sharding sharding);

// A piece of a flat buffer that an optimizer updates.
struct Segment {
  torch::Tensor values;    // [n], a leaf; float32 where the model is of 16 bits
  torch::Tensor gradient;  // [n], of the same dtype
  bool decays = false;     // of matrices
};

// How a unit is held.
struct UnitOptions {
  Sharding sharding = Sharding::replicated;
  // With full sharding: how values come together, and the ranks that hold the same shard for other groups,
  // over which its gradient is summed at the end of the step; none where there is one group.
  Gather gather = Gather::collective;
  std::unique_ptr<Group> replicas{};
};

// Parameters that the same ranks hold. Those that are trained are laid out one behind the other in flat
// buffers, which are padded so that they divide into equal shards. The leaves' values become views of the
// buffer; their gradients too, where dtypes are the same, so that autograd adds up in place.
class ParameterUnit {
 public:
  // The `group`'s ranks make theirs together, from the same parameters; without full sharding those that are
  // not trained are left alone. Throws InvalidInput naming the unit where dtypes differ.
  ParameterUnit(std::string name, std::vector<Parameter> parameters, std::unique_ptr<Group> group,
                UnitOptions options = {});

  const std::string& name() const { return name_; }
  const std::vector<Parameter>& parameters() const { return parameters_; }  // those that are trained
  const std::vector<Parameter>& frozen() const { return frozen_; }          // the others
  bool empty() const { return parameters_.empty(); }
  Sharding sharding() const { return options_.sharding; }
  const Group& group() const { return *group_; }

  void zero_gradients();
  // Adds what operators left in the leaves' gradients to the buffer, and lets it go; call it behind each that
  // makes weight gradients. Does nothing where they are views of it.
  void fold();
  // Sums over the group, with full sharding over the replicas; of a unit without trained parameters nothing
  // happens.
  void start_reduction();
  void finish_reduction();

  // Full sharding, in the order of a rank's row (sharded_walk.h). Leaves may be used from finish_gather() to
  // free_values(), and take gradients from begin_gradients() to push_gradients().
  void start_gather();
  void finish_gather();
  void free_values();
  void begin_gradients();
  // Starts to sum the shards of what the leaves have been given since, and frees it. One-sided, `turn` is its
  // place in the sums (Window::add).
  void push_gradients(int64_t turn);
  // Until this rank's shard of what was pushed is there; one-sided it is with the step's last, take_sums().
  void wait_for_pushed();
  void take_sums(int64_t turns);

  // What this rank updates, after the reduction: the whole unit or its shard.
  const std::vector<Segment>& segments() const { return segments_; }
  // Whether this rank's segments count where something is summed over all ranks once.
  bool counts() const { return is_sharded() ? in_first_group() : is_first(); }
  // Whether it is the first of all ranks that hold the unit.
  bool is_first() const { return group_->index() == 0 && in_first_group(); }
  // Brings what the optimizer wrote into the segments to the leaves of all ranks.
  void publish();

  // Whole tensors by name, from flat ones laid out as this rank's segments, one behind the other; every rank
  // of the group calls it and gets all.
  std::map<std::string, torch::Tensor> whole(const std::vector<torch::Tensor>& flat) const;
  // The inverse: this rank's pieces, as its segments, of whole tensors by name.
  std::vector<torch::Tensor> pieces(const std::map<std::string, torch::Tensor>& whole) const;

  // The segments' values as whole tensors: main weights where there are some.
  std::map<std::string, torch::Tensor> values() const;
  void set_values(const std::map<std::string, torch::Tensor>& whole);
  std::map<std::string, torch::Tensor> gradients() const;
  // Those that are not trained; every rank of the group calls these too.
  std::map<std::string, torch::Tensor> frozen_values() const;
  void set_frozen_values(const std::map<std::string, torch::Tensor>& whole);

  // That this rank holds at the moment: values (also main weights and frozen ones) and gradients.
  int64_t bytes() const;

 private:
  bool is_sharded() const { return sharding() != Sharding::replicated; }
  bool in_first_group() const { return !options_.replicas || options_.replicas->index() == 0; }
  torch::Tensor shard_of(const torch::Tensor& flat) const;
  torch::Tensor own_values() const;
  void make_segments();

  std::string name_;
  std::vector<Parameter> parameters_, frozen_;
  std::unique_ptr<Group> group_;
  UnitOptions options_;
  int64_t shard_ = 0;        // elements of a shard
  torch::Tensor values_;     // [group * shard] in the model's dtype
  torch::Tensor gradients_;  // [group * shard] in the main dtype; with full sharding while there are some
  torch::Tensor main_;       // [shard] or [group * shard]: what segments are of
  torch::Tensor reduced_;    // likewise: the gradient of main_
  torch::Tensor pushed_;     // [shard], of the reduction in progress
  std::vector<Segment> segments_;
  std::unique_ptr<Pending> reduction_;
  std::unique_ptr<ShardedValues> sharded_, sharded_frozen_;  // with full sharding
};

}  // namespace bigmac::train
