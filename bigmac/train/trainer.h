#pragma once

#include <functional>
#include <memory>

#include "bigmac/runtime/executor.h"
#include "bigmac/runtime/memory.h"
#include "bigmac/schedule/costs.h"
#include "bigmac/train/checkpoint.h"
#include "bigmac/train/options.h"
#include "bigmac/train/parameter_unit.h"
#include "bigmac/train/profiler.h"

namespace bigmac::train {

// The samples of a step, the same whichever rank asks: a pure function, so that the step is all of the
// position in the data. Large data are loaded where they are needed with Values::set_later.
using Batches = std::function<std::vector<Values>(int64_t step)>;

// What a step came to, the same on every rank.
struct StepFigures {
  int64_t step = 0;
  double loss = 0;
  std::vector<std::pair<std::string, double>> losses;  // by name, as they add up to `loss`
  double gradient_norm = 0;                            // before clipping
  double learning_rate = 0;
  double seconds = 0;
  int64_t samples = 0;
};

class Reducer;
class Optimizer;

// One rank of a training run.
class Trainer {
 public:
  // `world` has options.ranks() ranks: rank r * pp + p is rank p of replica r's pipeline. The system, the
  // batches and the transport must outlive it; all ranks make theirs together. Throws InvalidInput for
  // options that do not fit the system or name parameters that no rank has.
  Trainer(const System& system, Batches batches, const TrainOptions& options, Transport& world,
          std::shared_ptr<MemoryLedger> ledger = nullptr);
  ~Trainer();

  // Forward and backward of one step: afterwards the gradients are those of the whole step's loss.
  StepFigures compute_gradients(int64_t step);
  // The same, then clips and updates the parameters.
  StepFigures train_step(int64_t step);

  // Of the last step, in this rank's pipeline.
  const Schedule& schedule() const { return schedule_; }
  // The last step of the first replica's pipeline, on all of its ranks; without rows elsewhere. All ranks
  // call it together.
  Recording recording();

  SystemModel& model() { return *model_; }
  int rank() const { return world_.rank(); }

  // Bytes of values, gradients and optimizer states that this rank holds at the moment.
  int64_t held_bytes() const;

  // By global name, on rank 0; empty elsewhere. All ranks call it together.
  NamedTensors gather_parameters();
  NamedTensors gather_gradients();

  // Replaces parameters by whole tensors of these names, the same on all ranks, which call it together;
  // others keep their values. A name that a tie makes another's is passed over. Throws InvalidInput for
  // shapes that differ and for names that no rank has.
  void set_parameters(const NamedTensors& given);

  // Seconds that the forwards of each part of the backbone have taken over all ranks, for CutOptions::costs.
  // All ranks call it together.
  std::vector<double> part_seconds();

  // Saves what training goes on with after `step` steps, in the background; nothing without a folder. All
  // ranks call it together.
  void save(int64_t steps);
  void finish_saving();
  // Loads the newest checkpoint of the folder and returns the steps that were taken; 0 where there is none.
  int64_t resume();

 private:
  NamedTensors own_tensors(bool with_states);
  void check_patterns();
  void check_trained();
  void make_units();
  std::unique_ptr<MemoryLedger::Watch> watch_memory() const;
  Costs nominal_costs(const Batch& batch) const;

  const System& system_;
  Batches batches_;
  TrainOptions options_;
  Transport& world_;
  std::shared_ptr<MemoryLedger> ledger_;
  std::unique_ptr<Transport> pipeline_;
  std::unique_ptr<Group> everyone_;
  std::unique_ptr<SystemModel> model_;
  std::vector<std::unique_ptr<ParameterUnit>> units_;
  std::vector<NamedTensors> buffers_;  // of the units' modules
  std::unique_ptr<Reducer> reducer_;
  std::unique_ptr<Optimizer> optimizer_;
  // A rank that has failed writes no file to wait for.
  CheckpointWriter::IsCancelled look_at_others_ = [this] {
    world_.check();
    return false;
  };
  std::unique_ptr<CheckpointWriter> writer_;
  Schedule schedule_;
  int64_t step_ = -1;  // the last
  std::unique_ptr<Profiler> profiler_;
  double stage_elements_ = 1;  // parameters of a mean stage of the backbone
};

}  // namespace bigmac::train
