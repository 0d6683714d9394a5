#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "bigmac/cost/model.h"

namespace bigmac::cost {

enum class Recompute : uint8_t { none, selective, full };
std::string_view name(Recompute recompute);            // none, selective, full
Recompute recompute_from_name(std::string_view text);  // InvalidInput with the nearest known name

// How GPUs are divided. tensor * pipeline * data of them train one model; ranks are numbered with tensor
// fastest, then data, then pipeline, as Megatron Core does, so that tensor and expert groups lie inside nodes
// first and pipeline neighbours lie furthest apart.
struct Parallel {
  int64_t tensor = 1;
  int64_t pipeline = 1;  // P
  int64_t data = 1;
  int64_t expert = 1;             // divides tensor * data; each expert lies whole on one GPU
  bool sequence_parallel = true;  // cuts the tokens of what tensor parallelism does not cut

  bool sequence() const { return sequence_parallel && tensor > 1; }
  int64_t gpus() const { return tensor * pipeline * data; }
  int64_t expert_data() const { return tensor * data / expert; }  // replicas of an expert

  bool operator==(const Parallel&) const = default;
};

inline constexpr int64_t kMostParallel = 1'000'000;  // of each of the sizes

// That the sizes are between 1 and kMostParallel and expert divides tensor * data. Throws InvalidInput naming
// the size and its value.
void check(const Parallel& parallel);

// That the layers can be cut so: tensor divides heads, kv heads and the widths of what is cut by columns or
// rows (vocabularies are padded); expert divides the experts; experts beside tensor parallelism come with
// sequence parallelism, as in Megatron Core. Throws InvalidInput naming layer, part, both numbers, and the
// next smaller size that divides.
void check_fits(std::span<const Layer> layers, const Parallel& parallel);

}  // namespace bigmac::cost
