#include "bigmac/train/session.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <mutex>
#include <optional>

#include "bigmac/runtime/environment.h"
#include "bigmac/runtime/gloo_transport.h"
#include "bigmac/runtime/launch.h"
#include "bigmac/runtime/threads_transport.h"

namespace bigmac::train {
namespace {

// Seconds of the backbone's parts. The first pass, in which memory is allocated, does not count.
std::vector<double> measure_parts(const System& system, const Batches& batches, TrainOptions options,
                                  Transport& world) {
  options.checkpoints.clear();
  options.checkpoint_every = 0;
  options.resume = false;
  options.profile.folder.clear();
  Trainer trainer(system, batches, options, world);
  trainer.compute_gradients(0);
  auto before = trainer.part_seconds();
  trainer.compute_gradients(0);
  auto seconds = trainer.part_seconds();
  for (size_t p = 0; p < seconds.size(); ++p) seconds[p] = std::max(seconds[p] - before[p], 1e-9);
  return seconds;
}

// Those of another run are not written over.
void expect_none(const std::string& folder) {
  if (folder.empty()) return;
  if (auto found = Checkpoint::newest(folder))
    throw InvalidInput(concat("[train] '", folder, "' holds a checkpoint of step ", found->step(),
                              "; resume from it, or take another folder"));
}

void run_steps(Trainer& trainer, const TrainOptions& options, const Reports& reports, Transport& world) {
  bool speaks = world.rank() == 0;
  if (!options.resume) expect_none(options.checkpoints);
  int64_t first = options.resume ? trainer.resume() : 0;
  if (first == 0 && reports.prepare) reports.prepare(trainer);
  if (speaks && reports.begin) reports.begin(first, options.steps);
  for (int64_t step = first; step < options.steps; ++step) {
    auto figures = trainer.train_step(step);
    if (speaks && reports.step) reports.step(figures);
    bool last = step + 1 == options.steps;
    if (last || (options.checkpoint_every > 0 && (step + 1) % options.checkpoint_every == 0))
      trainer.save(step + 1);
  }
  if (reports.end) reports.end(trainer);
  trainer.finish_saving();
  world.barrier();
}

// Of one replica's ranks of this process: what one allocates another may free.
std::shared_ptr<MemoryLedger> ledger_for(const TrainOptions& options, bool alone) {
  if (options.profile.folder.empty() || !options.profile.memory.value_or(alone)) return nullptr;
  using Counts = MemoryLedger::Counts;
  return std::make_shared<MemoryLedger>(alone ? Counts::total : Counts::by_module,
                                        device_of(options.device, 0).type());
}

void run_rank(const System& system, const Batches& batches, TrainOptions options, const Reports& reports,
              Transport& world, const std::shared_ptr<MemoryLedger>& ledger) {
  at::set_num_threads(int(options.threads_per_rank));
  std::optional<MemoryLedger::Watch> watch;
  if (ledger) watch.emplace(ledger);
  if (options.measured_split) {
    options.cut.costs = measure_parts(system, batches, options, world);
    options.measured_split = false;
  }
  Trainer trainer(system, batches, options, world, ledger);
  // The others are told at once, not when what this rank saves in the background has been written.
  try {
    run_steps(trainer, options, reports, world);
  } catch (const RankFailure&) {
    throw;
  } catch (const std::exception& error) {
    world.fail(concat("rank ", world.rank(), ": ", error.what()));
    throw;
  } catch (...) {
    world.fail(concat("rank ", world.rank(), ": unknown exception"));
    throw Failure("unknown exception");
  }
}

void fit_environment(TrainOptions& options, const Environment& environment) {
  if (options.dp == 0 && environment.size % options.pp == 0) options.dp = environment.size / options.pp;
  if (environment.size == options.ranks()) return;
  throw InvalidInput(concat("[train] ", environment.launcher, " started ", environment.size,
                            " ranks, but pp ", options.pp, " and dp ", options.dp, " take ", options.ranks(),
                            environment.size % options.pp == 0
                                ? concat("; pass dp ", environment.size / options.pp)
                                : concat("; start a multiple of ", options.pp)));
}

}  // namespace

void fit_replicas(TrainOptions& options) {
  if (options.pp < 1) return;  // as check_options() says
  auto environment = read_environment();
  if (environment && environment->size > 1)
    fit_environment(options, *environment);
  else if (options.dp == 0)
    options.dp = 1;
}

bool is_silent_rank() {
  auto environment = read_environment();
  return environment && environment->rank != 0;
}

void train(const System& system, const Batches& batches, TrainOptions options, const Reports& reports) {
  fit_replicas(options);
  check_options(options, system);
  auto environment = read_environment();
  if (environment && environment->size > 1) {
    auto transport = connect_gloo(*environment);
    try {
      run_rank(system, batches, options, reports, *transport, ledger_for(options, true));
    } catch (const RankFailure&) {
      throw;
    } catch (const std::exception& error) {
      transport->fail(concat("rank ", environment->rank, ": ", error.what()));
      throw;
    }
    return;
  }
  if (options.ranks_as == RanksAs::processes && options.ranks() > 1) {
    launch_processes(own_command(), {.ranks = int(options.ranks())});
    return;
  }
  // What a rank finds wrong with the input is told as that, not as its failure.
  std::mutex mutex;
  std::optional<std::string> wrong;
  std::vector<std::shared_ptr<MemoryLedger>> ledgers;
  for (int64_t replica = 0; replica < options.dp; ++replica)
    ledgers.push_back(ledger_for(options, options.ranks() == 1));
  try {
    run_threads(int(options.ranks()), [&](Transport& world) {
      try {
        run_rank(system, batches, options, reports, world, ledgers[size_t(world.rank() / options.pp)]);
      } catch (const InvalidInput& error) {
        std::lock_guard lock(mutex);
        if (!wrong) wrong = error.what();
        throw;
      }
    });
  } catch (const RankFailure&) {
    if (wrong) throw InvalidInput(*wrong);
    throw;
  }
}

}  // namespace bigmac::train
