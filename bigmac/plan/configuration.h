#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bigmac/cost/parallel.h"
#include "bigmac/cost/split.h"
#include "bigmac/workload/workload.h"

namespace bigmac {

// How a workload is run: what a plan chooses.
struct Configuration {
  cost::Parallel parallel;  // of the backbone
  int64_t chunks = 1;       // V
  int64_t microbatch = 1;   // samples in one

  Arrangement arrangement = Arrangement::nested;
  Base base = Base::one_f_one_b;
  int64_t warmup_units = 0;  // W; 0: as nesting takes it

  cost::Recompute recompute = cost::Recompute::none;  // of the backbone
  std::vector<cost::Recompute> module_recompute;      // by Workload::modules

  // disttrain: GPUs of the encoders' and of the generators' own, and what of them cut one item together.
  int64_t encoder_gpus = 0, encoder_tensor = 1;
  int64_t generator_gpus = 0, generator_tensor = 1;
  bool own_whole = false;  // disttrain: what the workload shards is held whole on GPUs of its own

  // Layers by stage. Empty: balanced over their times, and where that does not fit into memory, the most even
  // one that does.
  cost::Split layers;

  int64_t gpus() const { return parallel.gpus() + encoder_gpus + generator_gpus; }
  int64_t stages() const { return parallel.pipeline * chunks; }
  bool operator==(const Configuration&) const = default;
};

// "nested 1f1b TP2 PP4 VPP1 DP16 EP8 MBS1 W3, recompute backbone full, image selective"
std::string to_text(const Configuration& configuration, const Workload& workload);

// Microbatches (M) of one replica for a global batch; 0 where it does not divide.
int64_t microbatches_of(const Configuration& configuration, int64_t global_batch);

// The GPUs that run encoders or generators, and how many of them cut an item together: the backbone's, in
// megatron those of its first or last stage, in disttrain their own.
int64_t module_gpus(const Configuration& configuration, Module kind);
int64_t module_tensor(const Configuration& configuration, Module kind);

// Why something cannot be run. `kind` counts what is alike: "batch does not divide", "out of memory".
struct Refusal {
  std::string kind;
  std::string text;  // with the numbers that do not fit, and what would

  bool operator==(const Refusal&) const = default;
};

// Why a workload cannot be run so, whatever its memory, if it cannot: GPUs, the global batch, heads, layers
// and stages, experts, what the base and the arrangement ask for.
std::optional<Refusal> refusal(const Configuration& configuration, const Workload& workload,
                               int64_t global_batch);

}  // namespace bigmac
