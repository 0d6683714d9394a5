#include "apps/bigmac/plan_command.h"

#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>

#include "apps/bigmac/arguments.h"
#include "apps/bigmac/console.h"
#include "apps/bigmac/plan_text.h"
#include "apps/bigmac/progress.h"
#include "apps/bigmac/workload_arguments.h"
#include "bigmac/plan/plan_json.h"

namespace bigmac {
namespace {

constexpr char kAbout[] =
    "Says how to run a workload on a cluster: searches tensor, pipeline, data and expert parallelism, chunks a "
    "rank, samples a microbatch, the schedule with its base and W, recompute of each module and the layers of "
    "each stage. Every configuration that could be among the best is simulated as a whole step. Prints the "
    "shortest steps, the frontier of time against memory, and why the others are not possible.\n"
    "\n"
    "The exit code is 1 where nothing fits into memory.";

constexpr char kExamples[] =
    "Examples:\n"
    "  What to run on 128 GPUs:\n"
    "    bigmac plan workloads/understanding.yaml\n"
    "  On half of them, with more memory, at 16 samples a GPU:\n"
    "    bigmac plan workloads/understanding.yaml --gpus 64 --memory 141GB --samples-per-gpu 16\n"
    "  The best nested configuration with 4 or 8 pipeline ranks, for machines:\n"
    "    bigmac plan workloads/generation.yaml --schedule nested --pp 4,8 --best 1 --json";

struct PlanArguments {
  WorkloadArguments workload;
  int64_t best = 10;
  bool json = false;
};

void run(const PlanArguments& arguments) {
  Workload workload = workload_of(arguments.workload);
  if (workload.samples_per_gpu.size() > 1 && !arguments.workload.samples_per_gpu.empty())
    throw InvalidInput("--samples-per-gpu: plan looks at one batch; give one number");
  auto begin = std::chrono::steady_clock::now();
  Plan plan;
  {
    std::optional<Progress> bar;
    SearchOptions options{.best = arguments.best,
                          .frontier = true,
                          .threads = int(arguments.workload.threads),
                          .progress = [&](int64_t done, int64_t total) {
                            if (!bar) bar.emplace("plan", total);
                            bar->done(done, "configurations");
                          }};
    plan = search(workload, workload.samples_per_gpu.front(), options);
  }
  double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  write_stdout(arguments.json ? json_of(plan, workload).dump() + "\n" : to_text(plan, workload, seconds));
  if (plan.best.empty()) throw Failure("no configuration fits into memory");
}

}  // namespace

void add_plan_command(CLI::App& program) {
  auto* command = program.add_subcommand("plan", kAbout);
  auto arguments = std::make_shared<PlanArguments>();
  add_workload_options(*command, arguments->workload);
  add_count(*command, "--best", arguments->best, "How many configurations to print")->default_str("10");
  add_switch(*command, "--json", arguments->json, "Print all of it as JSON, in seconds and bytes");
  command->footer(kExamples);
  command->callback([arguments] { run(*arguments); });
}

}  // namespace bigmac
