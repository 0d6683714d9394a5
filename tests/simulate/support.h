#pragma once

#include "bigmac/schedule/make.h"
#include "tests/schedule/support.h"

namespace bigmac {

inline constexpr Arrangement kArrangements[] = {
    Arrangement::llm_only, Arrangement::nested,   Arrangement::nested_fill, Arrangement::three_phase,
    Arrangement::optimus,  Arrangement::megatron, Arrangement::disttrain};

// A random table of an arrangement, with uneven items; nullopt where the arrangement has none for the step.
inline std::optional<Schedule> random_table(Random& random, Arrangement arrangement, const Costs& nominal) {
  Base base = kBases[size_t(integer(random, 0, 5))];
  auto chunks = chunks_of(base, 3);
  int64_t ranks = integer(random, 1, 5);
  Step step = step_of_base(base, ranks, chunks[size_t(integer(random, 0, int64_t(chunks.size()) - 1))],
                           integer(random, 1, 4 * ranks));
  step = nested(step, true, integer(random, 0, 1) == 1);
  if (integer(random, 0, 2) == 0) step.modules.push_back({"audio", Module::encoder, {}});
  freeze_some(random, step, 6);
  for (auto& module : step.modules) module.items = random_items(random, step.microbatches, 1, 3);
  step.generator_unit = integer(random, 0, ranks);
  step.spread = integer(random, 0, 3) > 0;
  step.arrangement = arrangement;
  try {
    return make_schedule(step, nominal);
  } catch (const InvalidInput&) {
    return std::nullopt;
  }
}

// Costs for it, each at least `least`.
inline Costs random_costs_of(Random& random, const Step& step, double least) {
  Costs costs{.forward = {}, .backward = {}};
  for (int64_t s = 0; s < step.stages(); ++s) {
    costs.forward.push_back(uniform(random, least, 3));
    costs.backward.push_back(uniform(random, 2 * least, 3));
    costs.weight.push_back(uniform(random, least, costs.backward.back() - least));
  }
  for (size_t n = 0; n < step.modules.size(); ++n)
    costs.modules.push_back({uniform(random, least, 2), uniform(random, least, 2)});
  return costs;
}

// A table whose rows are a random order that runs: no base's, but safe.
inline Schedule random_order(Random& random, int64_t ranks, int64_t chunks, int64_t microbatches) {
  Step step = step_of_base(Base::custom, ranks, chunks, microbatches);
  int64_t stages = ranks * chunks;
  std::vector<int64_t> forwards(size_t(stages * microbatches), 0), backwards = forwards;
  std::vector<std::vector<Operator>> rows{size_t(ranks)};
  auto at = [&](int64_t s, int64_t m) { return size_t(s * microbatches + m); };
  for (int64_t left = 2 * stages * microbatches; left > 0;) {
    int64_t s = integer(random, 0, stages - 1), m = integer(random, 0, microbatches - 1);
    auto run = [&](std::vector<int64_t>& ran, const Operator& op) {
      ran[at(s, m)] = 1;
      rows[size_t(s % ranks)].push_back(op);
      --left;
    };
    if (!forwards[at(s, m)]) {
      if (s == 0 || forwards[at(s - 1, m)]) run(forwards, backbone_forward(s / ranks, m));
    } else if (!backwards[at(s, m)] && (s + 1 == stages || backwards[at(s + 1, m)])) {
      run(backwards, backbone_backward(s / ranks, m));
    }
  }
  return make_table(step, rows);
}

}  // namespace bigmac
