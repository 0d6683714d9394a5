#pragma once

#include "bigmac/plan/make_job.h"

namespace bigmac {

// What one stage of the backbone takes and holds.
struct StageSums {
  cost::LayerTime time;
  double kept = 0;
  double working = 0;  // of its largest layer
  cost::StateBytes state;
  double sync = 0;
  double optimizer = 0;
};
StageSums sum_of_layers(const BackboneCosts& costs, int64_t begin, int64_t end);  // layers begin..end-1
std::vector<StageSums> stage_sums(const BackboneCosts& costs, const cost::Split& layers);

// A replica's ranks. In disttrain encoder ranks come first and generator ranks last, and a rank of a module
// that serves several replicas of the backbone takes as many times as long.
struct ReplicaRanks {
  RankSplit split;
  double encoder_times = 1, generator_times = 1;
  std::vector<int32_t> of_stage;  // by stage of the backbone

  ReplicaRanks(const Configuration& configuration);
  int64_t count() const { return split.encoder + split.backbone + split.generator; }
  double times(Module kind) const { return kind == Module::encoder ? encoder_times : generator_times; }
  // Whether a rank holds a module of this kind.
  bool holds(Module kind, int64_t rank) const;

 private:
  Arrangement arrangement_;
};

}  // namespace bigmac
