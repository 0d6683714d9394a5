#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "bigmac/schedule/operator.h"

namespace bigmac {

// The order of the backbone's own operators on each rank (base.h). `custom`: read from elsewhere.
enum class Base : uint8_t { gpipe, one_f_one_b, interleaved, zb_h1, zb_v, dualpipe_v, custom };

// Where encoder and generator operators stand in it.
//
//   llm_only     nowhere
//   nested       unit by unit at consistent cuts (nest.h)
//   nested_fill  item by item into the backbone's bubbles, the rest before what needs it (fill.h)
//   three_phase  all encoder forwards before and all encoder backwards behind the backbone's work
//   optimus      encoder items in the backbone's bubbles, the rest before and behind (optimus.h)
//   megatron     the encoder in the first stage, the generator in the last (megatron.h)
//   disttrain    each module on ranks of its own (disttrain.h)
enum class Arrangement : uint8_t { llm_only, nested, nested_fill, three_phase, optimus, megatron, disttrain };

std::string_view name(Base base);                // gpipe, 1f1b, interleaved, zb-h1, zb-v, dualpipe-v, custom
std::string_view name(Arrangement arrangement);  // llm-only, nested, nested-fill, three-phase, ...
Base base_from_name(std::string_view text);      // InvalidInput with the nearest known name
Base made_base_from_name(
    std::string_view text);  // likewise, of those that tables are made of: any but custom
Arrangement arrangement_from_name(std::string_view text);

// A picture, a clip, a target: what an encoder or generator runs on. Its cost is proportional to its size.
struct Item {
  uint32_t microbatch = 0;
  double size = 1;

  bool operator==(const Item&) const = default;
};

// An encoder or a generator. A generator is always trained: gradients pass through it to the backbone, so
// its forward and backward are one operator. It is replicated (or sharded) over the ranks, so any rank can
// run any item.
struct NestedModule {
  std::string name;               // "image"
  Module kind = Module::encoder;  // or generator
  std::vector<Item> items;        // in order of microbatch; their order is their number
  // W, encoder units ahead of their backward (of a frozen encoder, which only fill.h counts: ahead of stage
  // 0's forward); 0: 3, or more where it takes more.
  int64_t warmup_units = 0;
  bool trained = true;  // false: a frozen encoder, which has no backward; nothing is kept for one

  // Whether its shares have such an operator: F and B; of a frozen encoder F alone; of a generator G.
  bool runs(Phase phase) const {
    if (kind == Module::generator) return phase == Phase::generate;
    return phase == Phase::forward || (phase == Phase::backward && trained);
  }
  bool operator==(const NestedModule&) const = default;
};

// What one training step consists of: all that a schedule is made from.
struct Step {
  int64_t ranks = 1;         // P, pipeline ranks
  int64_t chunks = 1;        // V, virtual pipeline stages on each rank
  int64_t microbatches = 1;  // M

  Base base = Base::one_f_one_b;
  int64_t group = 0;  // G, microbatches a group of the interleaved order; 0 means P

  Arrangement arrangement = Arrangement::llm_only;
  std::vector<NestedModule> modules;
  int64_t generator_unit = 0;  // k, microbatches a unit of the generators, from 1 to P; 0 means P
  bool spread = true;          // items go to ranks by size; else microbatch m's to rank m mod P

  // The microbatch of the caller that stands at each position of the schedule, where they are permuted
  // (order.h). Everywhere else a microbatch is such a position.
  std::vector<uint32_t> order;

  // The rank of each stage where the base does not say: custom tables, and disttrain's.
  std::vector<int32_t> stage_ranks;

  int64_t stages() const { return stage_ranks.empty() ? ranks * chunks : int64_t(stage_ranks.size()); }
  int64_t group_size() const { return group == 0 ? ranks : group; }
  int64_t unit_size(Module kind) const {  // microbatches a unit
    return kind == Module::generator && generator_unit != 0 ? generator_unit : ranks;
  }
  bool has(Module kind) const;
  // Whether backbone backwards are split into I and W, all or some.
  bool splits_backward() const {
    return base == Base::zb_h1 || base == Base::zb_v || base == Base::dualpipe_v || base == Base::custom;
  }
  uint32_t declared(int64_t position) const { return order.empty() ? uint32_t(position) : order[position]; }

  bool operator==(const Step&) const = default;
};

// A module whose every microbatch has one item of size 1.
NestedModule one_item_each(std::string name, Module kind, int64_t microbatches);

// The rank of a stage: s mod P in a loop; in the V of zb-v and dualpipe-v rank r holds stages r and 2P-1-r.
int rank_of_stage(const Step& step, int64_t stage);

// The most operators a step may have: 2 GiB of table.
inline constexpr int64_t kMostOperators = int64_t{1} << 28;

// Throws InvalidInput for counts that are not positive or make a table larger than that.
void check_counts(const Step& step);

// The same, and for whatever else is not legal, naming P, V, M, G and the nearest legal values.
void check_step(const Step& step);

// "P=8 V=2 M=64", for errors.
std::string shape(const Step& step);

}  // namespace bigmac
