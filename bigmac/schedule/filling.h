#pragma once

#include <vector>

#include "bigmac/schedule/backbone_timeline.h"

namespace bigmac {

// What all passes of nested-fill over one step share (fill.h).
struct Filling {
  // `warmup_units`: W, by module.
  Filling(const Step& step, const Costs& nominal, const std::vector<int64_t>& warmup_units);

  struct Item {
    uint32_t microbatch;
    int32_t module;
    int32_t unit;
    bool encoder;
    bool trained;
    double size;
    double first;   // what its F or G takes
    double second;  // its B; 0 where it has none
  };

  const Step& step() const { return backbone.table.step; }

  BackboneTimeline backbone;
  Shares singles;             // each item a share of its own; an item's number is that of its share
  Dependencies dependencies;  // with `singles`
  Durations durations;
  std::vector<Item> items;
  std::vector<double> units;   // by module: the size of a unit
  std::vector<double> limits;  // by module: the size that one rank may hold, W + 1 units
  // What all ranks may hold of all encoders, and of frozen ones have waiting for stage 0, in units.
  double capacity = 0, waiting_capacity = 0;

  double mean_work = 0;         // of a rank, items and backbone
  double shortest = 0;          // no step is shorter: mean_work, or the backbone alone
  double longest_backward = 0;  // of the encoders' items; where all are frozen, the longest forward
};

}  // namespace bigmac
