#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "bigmac/schedule/operator.h"

namespace bigmac {

// The order of the backbone's own operators on each rank.
enum class Base { one_f_one_b, interleaved };

// Where encoder and generator operators stand in it: nowhere; at consistent cuts (nest.h); or all encoder
// forwards before and all encoder backwards behind the backbone's work.
enum class Arrangement { llm_only, nested, three_phase };

std::string_view name(Base base);                // 1f1b, interleaved
std::string_view name(Arrangement arrangement);  // llm-only, nested, three-phase
Base base_from_name(std::string_view text);      // InvalidInput with the nearest known name
Arrangement arrangement_from_name(std::string_view text);

// What one training step consists of: all that a schedule is made from.
struct Step {
  int64_t ranks = 1;         // P, pipeline ranks
  int64_t chunks = 1;        // V, virtual pipeline stages on each rank
  int64_t microbatches = 1;  // M

  Base base = Base::one_f_one_b;
  int64_t group = 0;  // G, microbatches a group of the interleaved order; 0 means P

  Arrangement arrangement = Arrangement::llm_only;
  int64_t warmup_units = 3;  // W, encoder units ahead of their backward

  // One flag a microbatch: whether it has input for the encoder, a target for the generator.
  // Empty: the model has no such module.
  std::vector<uint8_t> encoder;
  std::vector<uint8_t> generator;

  int64_t stages() const { return ranks * chunks; }
  bool has_encoder() const { return !encoder.empty(); }
  bool has_generator() const { return !generator.empty(); }
  int64_t group_size() const { return group == 0 ? ranks : group; }
};

// The most operators a step may have: 2 GiB of table.
inline constexpr int64_t kMostOperators = int64_t{1} << 28;

// Throws InvalidInput for counts that are not positive or make a table larger than that.
void check_counts(const Step& step);

// The same, and for whatever else is not legal, naming P, V, M, G and the nearest legal values.
void check_step(const Step& step);

// Operators have dense ids: backbone forwards by stage and microbatch, backbone backwards likewise, then
// encoder forwards, encoder backwards and generator operators by microbatch. Stage s = chunk * P + rank.
struct Ids {
  explicit Ids(const Step& step)
      : ranks(step.ranks),
        stages(step.stages()),
        microbatches(step.microbatches),
        backward(stages * microbatches),
        encoder(2 * stages * microbatches),
        generator(encoder + 2 * microbatches),
        count(generator + microbatches) {}

  int64_t stage(int rank, const Operator& op) const { return op.chunk * ranks + rank; }
  int64_t forward_of(int64_t stage, int64_t microbatch) const { return stage * microbatches + microbatch; }
  int64_t backward_of(int64_t stage, int64_t microbatch) const {
    return backward + stage * microbatches + microbatch;
  }
  int64_t encoder_forward_of(int64_t microbatch) const { return encoder + microbatch; }
  int64_t encoder_backward_of(int64_t microbatch) const { return encoder + microbatches + microbatch; }
  int64_t generate_of(int64_t microbatch) const { return generator + microbatch; }

  int64_t of(int rank, const Operator& op) const {
    if (op.module == Module::backbone)
      return (op.phase == Phase::forward ? 0 : backward) + stage(rank, op) * microbatches + op.microbatch;
    if (op.module == Module::encoder)
      return encoder + (op.phase == Phase::forward ? 0 : microbatches) + op.microbatch;
    return generator + op.microbatch;
  }

  struct Placed {
    int rank;
    Operator op;
  };
  // The inverse of `of`. Encoder and generator operators of microbatch m run on rank m mod P.
  Placed at(int64_t id) const;

  int64_t ranks, stages, microbatches, backward, encoder, generator, count;
};

// Encoder units ahead of their backward: W, or all units of the step where it has fewer or runs three-phase.
inline int64_t units_ahead(const Step& step) {
  int64_t units = step.microbatches / step.ranks;
  return step.arrangement == Arrangement::three_phase || step.warmup_units > units ? units
                                                                                   : step.warmup_units;
}

// The rank that runs the encoder and generator operators of a microbatch.
inline int unit_rank(const Step& step, int64_t microbatch) {
  return int(microbatch % step.ranks);
}

}  // namespace bigmac
