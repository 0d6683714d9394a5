#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bigmac/cost/hardware.h"
#include "bigmac/cost/layer_bytes.h"
#include "bigmac/cost/model.h"
#include "bigmac/cost/split.h"
#include "bigmac/schedule/step.h"
#include "bigmac/simulate/links.h"

namespace bigmac {

// How many items (images, clips, pictures to generate) a sample has, and how large they are.
struct ItemDistribution {
  double mean = 1;  // items of a sample that has any: 1 + Poisson(mean - 1), or exactly `mean` where `fixed`
  bool fixed = true;
  double empty = 0;   // share of samples without any
  double tokens = 0;  // mean tokens of an item (patches before merging)
  double sigma = 0;   // sizes are log-normal with this sigma, of that mean
  double least = 1;   // sizes are clamped to these
  double most = 1e9;

  bool operator==(const ItemDistribution&) const = default;
};

// The backbone, or an encoder or generator.
struct WorkloadModule {
  std::string name;
  cost::Model model;
  cost::Efficiency efficiency;
  bool frozen = false;
  // Levels that a configuration may choose from. Empty: all that make sense.
  std::vector<cost::Recompute> recompute;
  double expert_imbalance = 1;

  // Encoders and generators only.
  Module kind = Module::backbone;
  ItemDistribution items;
  double text = 0;    // tokens of an item's second stream
  int64_t shard = 1;  // consecutive GPUs that share out its parameters and gradients (FSDP), gathering them a
                      // layer at a time beside computing; 1: every GPU holds all (DDP)
};

// What a plan may choose from. Empty lists: all that make sense for the model and the number of GPUs.
struct Search {
  std::vector<int64_t> tensor, pipeline, chunks, expert, microbatch;  // microbatch: samples in one
  std::vector<Arrangement> arrangements;
  std::vector<Base> bases;
  std::vector<int64_t> warmup_units;
  // Of the backbone's layers over the stages, all of them (embedding and head too). Only
  // configurations with as many stages as one of them are looked at. Empty: balanced.
  std::vector<cost::Split> splits;

  bool operator==(const Search&) const = default;
};

// A training job: models, data and cluster, as workloads/*.yaml state them.
struct Workload {
  std::string name;
  WorkloadModule backbone;
  std::vector<WorkloadModule> modules;
  double tokens = 0;  // of a sample, in the backbone

  int64_t gpus = 1;
  cost::Hardware hardware;
  double memory = 0;    // bytes a GPU may hold
  double reserved = 0;  // of those, taken by what is not modelled: the driver, the allocator's fragments
  Exchange exchange = Exchange::overlapped;
  double overlap = 0;  // part of the gradients' reduction hidden behind computing, 0 to 1
  cost::Precision precision;
  bool shard_optimizer = true;

  std::vector<int64_t> samples_per_gpu;  // batches: global batch over GPUs. The first one is `plan`'s default
  uint64_t seed = 1;
  Search search;
};

}  // namespace bigmac
