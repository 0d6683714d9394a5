#include "bigmac/cost/parallel.h"

#include <algorithm>
#include <array>

#include "bigmac/common/error.h"
#include "bigmac/common/names.h"

namespace bigmac::cost {
namespace {

constexpr std::array<std::string_view, 3> kRecomputes = {"none", "selective", "full"};

void check_size(std::string_view field, int64_t value) {
  if (value < 1 || value > kMostParallel)
    throw InvalidInput(
        concat("[parallel] ", field, " must be between 1 and ", kMostParallel, ", got ", value));
}

void check_divides(std::string_view size, int64_t parts, std::string_view what, int64_t whole,
                   const Layer& layer, const Part& part) {
  if (whole % parts == 0) return;
  int64_t below = std::min(parts, whole);
  while (below > 1 && whole % below != 0) --below;
  throw InvalidInput(concat("[parallel] ", size, " ", parts, " does not divide the ", whole, " ", what,
                            " of ", part.name, " in ", layer.name, "; the next smaller that does is ",
                            below));
}

void check_fits(const Layer& layer, const Part& part, const Parallel& parallel) {
  if (part.experts > 0) {
    check_divides("expert", parallel.expert, "experts", part.experts, layer, part);
    if (parallel.tensor > 1 && !parallel.sequence_parallel)
      throw InvalidInput(concat("[parallel] tensor ", parallel.tensor, " with the experts of ", part.name,
                                " in ", layer.name, " needs sequence parallelism"));
    return;
  }
  if (part.cut == Cut::none || part.cut == Cut::vocabulary) return;
  if (part.kind == PartKind::attention) {
    check_divides("tensor", parallel.tensor, "heads", part.heads, layer, part);
    check_divides("tensor", parallel.tensor, "kv heads", part.kv_heads, layer, part);
  } else if (part.cut == Cut::rows) {
    check_divides("tensor", parallel.tensor, "inputs", part.in, layer, part);
  } else if (part.cut == Cut::columns) {
    check_divides("tensor", parallel.tensor, "outputs", part.out, layer, part);
  }
}

}  // namespace

std::string_view name(Recompute recompute) {
  return kRecomputes[size_t(recompute)];
}

Recompute recompute_from_name(std::string_view text) {
  auto found = std::find(kRecomputes.begin(), kRecomputes.end(), text);
  if (found == kRecomputes.end())
    throw InvalidInput(unknown_name("recompute", text, {kRecomputes.begin(), kRecomputes.end()}));
  return Recompute(found - kRecomputes.begin());
}

void check(const Parallel& parallel) {
  check_size("tensor", parallel.tensor);
  check_size("pipeline", parallel.pipeline);
  check_size("data", parallel.data);
  check_size("expert", parallel.expert);
  int64_t gpus = parallel.tensor * parallel.data;
  if (gpus % parallel.expert != 0)
    throw InvalidInput(concat("[parallel] expert ", parallel.expert, " must divide tensor * data = ",
                              parallel.tensor, " * ", parallel.data, " = ", gpus));
}

void check_fits(std::span<const Layer> layers, const Parallel& parallel) {
  check(parallel);
  for (const auto& layer : layers)
    for (const auto& part : layer.parts) check_fits(layer, part, parallel);
}

}  // namespace bigmac::cost
