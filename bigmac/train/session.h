#pragma once

#include "bigmac/train/trainer.h"

namespace bigmac::train {

// What is told of a run while it goes.
struct Reports {
  std::function<void(Trainer&)>
      prepare{};  // on every rank, before a run that does not resume: set_parameters
  std::function<void(int64_t first, int64_t steps)> begin{};  // on rank 0: the first step, of how many
  std::function<void(const StepFigures&)> step{};             // on rank 0, behind each step
  std::function<void(Trainer&)> end{};                        // on every rank, which may gather there
};

// Trains as the options say. A process that torchrun, srun or mpirun started is one rank, of options.ranks()
// (with options.dp 0: of as many replicas as there are ranks for). Otherwise ranks are threads of this
// process, or processes that it starts with its own command line: those run main() up to here too, and
// `reports` are called in them. Throws InvalidInput for what is wrong with
// the system or the options; RankFailure, on every rank, with the first failed rank's error.
void train(const System& system, const Batches& batches, TrainOptions options, const Reports& reports = {});

// With dp 0: as many replicas as the launcher of this process started ranks for, 1 without a launcher.
// train() does so by itself; batches that depend on the number of replicas need it before. Throws
// InvalidInput where ranks and options do not fit.
void fit_replicas(TrainOptions& options);

// Whether this process is a rank other than the first, which has nothing to say.
bool is_silent_rank();

}  // namespace bigmac::train
