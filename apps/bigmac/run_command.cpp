#include "apps/bigmac/run_command.h"

#include <fmt/format.h>

#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>

#include "apps/bigmac/output_files.h"
#include "apps/bigmac/plan_text.h"
#include "apps/bigmac/workload_arguments.h"
#include "bigmac/command/console.h"
#include "bigmac/emulate/emulate.h"
#include "bigmac/plan/estimator.h"
#include "bigmac/plan/search.h"
#include "bigmac/runtime/environment.h"
#include "bigmac/runtime/gloo_transport.h"
#include "bigmac/runtime/launch.h"
#include "bigmac/runtime/threads_transport.h"
#include "bigmac/simulate/simulate.h"
#include "bigmac/timeline/trace.h"

namespace bigmac {
namespace {

constexpr char kAbout[] =
    "Runs a step of a workload on this machine without its GPUs: the real executor and real messages, with "
    "operators that "
    "take their modelled time asleep and keep and hand over bytes in proportion to their modelled ones. It "
    "shows whether "
    "what the simulation says of a schedule is what running it comes to: 16 ranks can be run on two cores.\n"
    "\n"
    "The configuration is the best one that `bigmac plan` finds within the same options, and one replica's "
    "pipeline is "
    "run. `--pp`, `--schedule` and the others fix it.";

constexpr char kExamples[] =
    "Examples:\n"
    "  bigmac run workloads/small.yaml --emulate\n"
    "  bigmac run workloads/understanding.yaml --emulate --pp 8 --schedule nested-fill --seconds 10\n"
    "  bigmac run workloads/small.yaml --emulate --ranks-as processes --trace step.json\n"
    "  bigmac report step.json";

// A message between stages has at most so many bytes.
constexpr double kMostMessage = 1 << 20;

struct RunArguments {
  WorkloadArguments workload;
  bool emulate = false, processes = false, json = false;
  int64_t steps = 3;
  double seconds = 4;
  std::optional<std::string> trace;
};

struct Emulated {
  Schedule schedule;
  Emulation emulation;
  Timeline simulated;
  std::string what;
};

Emulated prepare(const RunArguments& arguments) {
  Workload workload = workload_of(arguments.workload);
  int64_t samples = workload.samples_per_gpu.front();
  auto plan =
      search(workload, samples, {.best = 1, .frontier = false, .threads = int(arguments.workload.threads)});
  if (plan.best.empty()) throw Failure("no configuration fits into memory");
  const auto& configuration = plan.best.front().configuration;
  Job job = Estimator(workload, samples).job(configuration);
  if (job.step.arrangement == Arrangement::disttrain)
    throw InvalidInput("[run] disttrain's ranks without layers are not run; take another --schedule");
  Emulated emulated{make_schedule(job), {.costs = job.costs, .links = job.links, .bytes = job.bytes}, {}, {}};
  auto& [schedule, emulation, simulated, what] = emulated;
  double whole = simulate(schedule, as_emulated(schedule.step, emulation)).length();
  emulation.seconds = arguments.seconds / whole;
  if (job.links.stage_bytes > kMostMessage) emulation.scale = kMostMessage / job.links.stage_bytes;
  simulated = simulate(schedule, as_emulated(schedule.step, emulation));
  what = concat(job_text(workload), ": ", to_text(configuration, workload));
  return emulated;
}

void tell(const RunArguments& arguments, const Emulated& emulated, const std::vector<Timeline>& measured) {
  const auto& [schedule, emulation, simulated, what] = emulated;
  const auto& median = median_of(measured);
  double gap = median.length() / simulated.length() - 1;
  auto shares = time_shares(median), planned = time_shares(simulated);
  if (arguments.trace)
    write_trace(Recording{.name = what, .schedule = schedule, .timeline = median, .measured = true},
                *arguments.trace);
  const auto& step = schedule.step;
  if (arguments.json) {
    nlohmann::ordered_json json{{"ranks", step.ranks},
                                {"chunks", step.chunks},
                                {"microbatches", step.microbatches},
                                {"base", name(step.base)},
                                {"schedule", name(step.arrangement)},
                                {"seconds_of_a_second", emulation.seconds},
                                {"byte_scale", emulation.scale},
                                {"simulated", simulated.length()},
                                {"measured", median.length()},
                                {"gap", gap},
                                {"busy", shares.busy},
                                {"transfer", shares.transfer},
                                {"order", shares.order},
                                {"bubble", shares.bubble}};
    for (const auto& timeline : measured) json["steps"].push_back(timeline.length());
    write_stdout(json.dump(2) + "\n");
    return;
  }
  write_stdout(
      fmt::format("{}\nP={} V={} M={}, base {}, {} schedule; a second takes {:.3g} s, bytes are {:.2g} of "
                  "the modelled ones\n\n"
                  "           step, s   busy  transfer  bubble\n"
                  "simulated {:>8.3f}  {:>4.1f} %    {:>4.1f} %  {:>4.1f} %\n"
                  "measured  {:>8.3f}  {:>4.1f} %    {:>4.1f} %  {:>4.1f} %\n"
                  "gap       {:>+7.1f} %\n",
                  what, step.ranks, step.chunks, step.microbatches, name(step.base), name(step.arrangement),
                  emulation.seconds, emulation.scale, simulated.length(), planned.busy * 100,
                  planned.transfer * 100, planned.bubble * 100, median.length(), shares.busy * 100,
                  shares.transfer * 100, (shares.bubble + shares.order) * 100, gap * 100));
}

void run(const RunArguments& arguments) {
  if (!arguments.emulate)
    throw InvalidInput(
        "run needs --emulate: only emulated operators are run of a workload; bigmac train runs real ones");
  if (arguments.trace) check_writable(*arguments.trace);
  auto emulated = prepare(arguments);
  auto environment = read_environment();
  if (environment && environment->size > 1) {
    if (environment->size != emulated.schedule.ranks())
      throw InvalidInput(concat("[run] ", environment->launcher, " started ", environment->size,
                                " ranks, the configuration has ", emulated.schedule.ranks()));
    auto transport = connect_gloo(*environment);
    auto measured = emulate(emulated.schedule, emulated.emulation, *transport, arguments.steps);
    if (environment->rank == 0) tell(arguments, emulated, measured);
    return;
  }
  if (arguments.processes && emulated.schedule.ranks() > 1) {
    launch_processes(own_command(), {.ranks = int(emulated.schedule.ranks())});
    return;
  }
  std::vector<Timeline> measured;
  std::mutex mutex;
  run_threads(int(emulated.schedule.ranks()), [&](Transport& world) {
    auto timelines = emulate(emulated.schedule, emulated.emulation, world, arguments.steps);
    std::lock_guard lock(mutex);
    if (world.rank() == 0) measured = std::move(timelines);
  });
  tell(arguments, emulated, measured);
}

}  // namespace

void add_run_command(CLI::App& program) {
  auto* command = program.add_subcommand("run", kAbout);
  auto arguments = std::make_shared<RunArguments>();
  add_workload_options(*command, arguments->workload, "nested,nested-fill,megatron", "all but gpipe");
  add_batch_option(*command, arguments->workload, "N", "The batch: samples of a step over GPUs",
                   "the workload's first");
  add_switch(*command, "--emulate", arguments->emulate, "Operators take their modelled time, asleep");
  command
      ->add_option_function<std::string>(
          "--seconds",
          [arguments](const std::string& text) {
            if (!parse_number(text, arguments->seconds) ||
                !(arguments->seconds > 0 && arguments->seconds <= 3600))
              throw must_be("--seconds", "a number above 0 up to 3600", text);
          },
          "What the simulated step is made to take; short operators are measured less exactly")
      ->type_name("S")
      ->default_str("4");
  add_count(*command, "--steps", arguments->steps, "Steps to measure; the median one is told")
      ->default_str("3");
  add_choice(
      *command, "--ranks-as", "threads|processes",
      [arguments](const std::string& text) {
        if (text != "threads" && text != "processes")
          throw InvalidInput(concat("'", text, "' is neither threads nor processes"));
        arguments->processes = text == "processes";
      },
      "What the ranks are; torchrun, srun and mpirun start processes of their own");
  add_path(*command, "--trace", arguments->trace, "Write the median step as Chrome trace events");
  add_switch(*command, "--json", arguments->json, "Print the figures as JSON");
  command->footer(kExamples);
  command->callback([arguments] { run(*arguments); });
}

}  // namespace bigmac
