#pragma once

#include <map>
#include <memory>
#include <tuple>

#include "bigmac/plan/backbone_costs.h"
#include "bigmac/plan/bounds.h"
#include "bigmac/plan/make_job.h"
#include "bigmac/plan/outcome.h"

namespace bigmac {

// What configurations of a workload take and hold, at one batch. Remembers what they have in common; each
// thread takes its own.
class Estimator {
 public:
  // Throws InvalidInput for a batch that is not positive.
  Estimator(const Workload& workload, int64_t samples_per_gpu);
  ~Estimator();
  Estimator(Estimator&&) noexcept;

  const Workload& workload() const { return workload_; }
  int64_t global_batch() const { return global_batch_; }

  // All three are for configurations without a refusal, and throw InvalidInput where a schedule cannot be
  // made (a W that is too small).
  LeastOutcome least(const Configuration& configuration);
  Job job(const Configuration& configuration);
  // `most_passes`: of nested-fill (fill.h).
  Outcome evaluate(const Configuration& configuration, int64_t most_passes = kAllPasses);
  // The rank that holds most, when, and its largest holders; empty where the configuration fits.
  std::string explain_memory(const Configuration& configuration, int64_t most_passes = kAllPasses);
  // The rank that holds most, and all that lies there at its peak, largest first.
  struct FullestRank {
    int rank = 0;
    RankMemory memory;
    std::vector<Holder> holders;
  };
  FullestRank fullest_rank(const Configuration& configuration);

 private:
  struct Memo;
  const BackboneCosts& backbone(const Configuration& configuration);
  const ModuleWork& module(size_t n, const Configuration& configuration);
  const SampleSizes& sizes(size_t n, int64_t tensor);
  const InFlight& in_flight(const Configuration& configuration);
  const RankBounds& any_layers(const JobParts& parts);
  JobParts parts(const Configuration& configuration);
  ModulePlacement placement(size_t n, const Configuration& configuration) const;
  const cost::Split& layers(const Configuration& configuration);
  cost::Split layers_in_memory(const Configuration& configuration, const Outcome& balanced);
  Outcome evaluate_as_given(const Configuration& configuration, int64_t most_passes);

  Workload workload_;
  int64_t global_batch_;
  LayerKinds backbone_kinds_;
  std::vector<LayerKinds> module_kinds_;
  std::unique_ptr<Memo> memo_;
};

}  // namespace bigmac
