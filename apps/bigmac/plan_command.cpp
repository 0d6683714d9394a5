#include "apps/bigmac/plan_command.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>

#include "apps/bigmac/outcome_table.h"
#include "apps/bigmac/output_files.h"
#include "apps/bigmac/plan_json_text.h"
#include "apps/bigmac/plan_text.h"
#include "apps/bigmac/workload_arguments.h"
#include "bigmac/command/arguments.h"
#include "bigmac/command/console.h"
#include "bigmac/command/progress.h"
#include "bigmac/simulate/memory.h"
#include "bigmac/timeline/picture.h"
#include "bigmac/timeline/trace.h"

namespace bigmac {
namespace {

constexpr char kAbout[] =
    "Says how to run a workload on a cluster: searches tensor, pipeline, data and expert parallelism, chunks "
    "a "
    "rank, samples a microbatch, the schedule with its base and W, recompute of each module and the layers "
    "of "
    "each stage. Every configuration that could be among the best is simulated as a whole step. Prints the "
    "shortest steps, what the first one's time and memory consist of, what each other choice would bring, "
    "what "
    "there is with less memory, and why the rest is not possible.\n"
    "\n"
    "The exit code is 1 where nothing fits into memory. docs/plan.md says what is searched and what is not "
    "known.";

constexpr char kExamples[] =
    "Examples:\n"
    "  What to run on 8 GPUs, in a second:\n"
    "    bigmac plan workloads/small.yaml\n"
    "  What to run on 128 GPUs at 8 samples a GPU:\n"
    "    bigmac plan workloads/understanding.yaml --samples-per-gpu 8\n"
    "  On half of them, with more memory:\n"
    "    bigmac plan workloads/understanding.yaml --gpus 64 --hardware H200\n"
    "  Within what is run already: TP 2, 4 or 8 pipeline ranks, the LLM recomputed in full:\n"
    "    bigmac plan workloads/understanding.yaml --tp 2 --pp 4,8 --recompute backbone=full\n"
    "  A picture of the best step, and a trace to open in https://ui.perfetto.dev:\n"
    "    bigmac plan workloads/small.yaml --picture step.svg --trace step.json\n"
    "  The shortest step, for machines:\n"
    "    bigmac plan workloads/small.yaml --best 1 --json";

struct PlanArguments {
  WorkloadArguments workload;
  int64_t best = 10, frontier = 8;
  bool json = false;
  std::optional<std::string> trace, picture;
};

// The search is the same for any number that people want to see, so that its first is.
constexpr int64_t kFewestKept = 10;
constexpr std::chrono::milliseconds kBetweenBars{100};

Plan search_with_bar(const Workload& workload, const PlanArguments& arguments) {
  std::optional<Progress> bar;
  std::chrono::steady_clock::time_point drawn;
  auto draw = [&](int64_t done, int64_t total) {
    auto now = std::chrono::steady_clock::now();
    if (now - drawn < kBetweenBars) return;
    drawn = now;
    if (!bar) bar.emplace("plan", total);
    bar->done(done, "configurations");
  };
  SearchOptions options{.best = std::max(arguments.best, kFewestKept),
                        .frontier = true,
                        .threads = int(arguments.workload.threads),
                        .progress = draw};
  return search(workload, workload.samples_per_gpu.front(), options);
}

// The best step as it was simulated.
void draw(const PlanArguments& arguments, const Workload& workload, const Plan& plan) {
  if (!arguments.trace && !arguments.picture) return;
  const auto& best = plan.best.front();
  Estimator estimator(workload, plan.samples_per_gpu);
  Job job = estimator.job(best.configuration);
  Schedule schedule = make_schedule(job);
  Timeline timeline = simulate(schedule, job.costs, job.links);
  if (arguments.trace) {
    Recording recording{.name = {}, .schedule = schedule, .timeline = timeline};
    for (int rank = 0; rank < schedule.ranks(); ++rank) {
      auto& curve = recording.memory.emplace_back();
      for (const auto& [time, bytes] : memory_over_time(schedule, timeline, job.bytes, rank)) {
        curve.times.push_back(time);
        curve.bytes.push_back(bytes);
      }
    }
    recording.memory_limit = workload.memory - workload.reserved;
    write_trace(recording, *arguments.trace);
  }
  if (arguments.picture)
    write_picture(*arguments.picture,
                  to_svg(schedule, timeline,
                         concat(job_text(workload), ": ", to_text(best.configuration, workload), ", ",
                                seconds_text(timeline.length()))));
}

void run(const PlanArguments& arguments) {
  if (arguments.workload.samples_per_gpu.size() > 1)
    throw InvalidInput("--samples-per-gpu: plan looks at one batch; give one number (compare takes several)");
  if (arguments.picture) check_picture("--picture", *arguments.picture);
  if (arguments.trace) check_writable(*arguments.trace);
  Workload workload = workload_of(arguments.workload);
  auto begin = std::chrono::steady_clock::now();
  Plan plan = search_with_bar(workload, arguments);
  double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  auto report = report_of(std::move(plan), workload, seconds, arguments.best, arguments.frontier);
  write_stdout(arguments.json ? to_json(report) : to_text(report));
  if (report.plan.best.empty()) throw Failure("no configuration fits into memory");
  draw(arguments, workload, report.plan);
}

}  // namespace

void add_plan_command(CLI::App& program) {
  auto* command = program.add_subcommand("plan", kAbout);
  auto arguments = std::make_shared<PlanArguments>();
  add_workload_options(*command, arguments->workload, "nested,nested-fill,megatron", "all but gpipe");
  add_batch_option(*command, arguments->workload, "N", "The batch: samples of a step over GPUs",
                   "the workload's first");
  add_count(*command, "--best", arguments->best, "How many of the shortest steps to print")
      ->default_str("10");
  add_whole(
      *command, "--frontier", 0, [arguments](int64_t lines) { arguments->frontier = lines; },
      "How many configurations with less memory to print; --json has all")
      ->default_str("8");
  add_switch(*command, "--json", arguments->json, "Print all of it as JSON, in seconds and bytes");
  add_path(*command, "--trace", arguments->trace, "Write the best step as Chrome trace events");
  add_path(*command, "--picture", arguments->picture, "Draw the best step, as .svg or .png");
  command->footer(kExamples);
  command->callback([arguments] { run(*arguments); });
}

}  // namespace bigmac
