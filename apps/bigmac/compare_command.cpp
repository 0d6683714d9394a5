#include "apps/bigmac/compare_command.h"

#include <memory>
#include <nlohmann/json.hpp>

#include "apps/bigmac/compare_chart.h"
#include "apps/bigmac/compare_text.h"
#include "apps/bigmac/output_files.h"
#include "apps/bigmac/plan_json_text.h"
#include "apps/bigmac/workload_arguments.h"
#include "bigmac/command/arguments.h"
#include "bigmac/command/console.h"
#include "bigmac/command/progress.h"
#include "bigmac/plan/plan_json.h"

namespace bigmac {
namespace {

constexpr char kAbout[] =
    "Compares the systems that multimodal models are trained with, over the workload's batches: an encoder "
    "in the "
    "first stage and a generator in the last (megatron), ranks of their own (disttrain), beside the pipeline "
    "(three-phase), in its bubbles (optimus), and nested into it (nested, nested-fill). Each is searched for "
    "its own "
    "best configuration under the same memory; where nothing is said, all have the bases 1f1b and "
    "interleaved.\n"
    "\n"
    "The exit code is 1 where no system fits at any batch.";

constexpr char kExamples[] =
    "Examples:\n"
    "  All systems, over the batches that the workload lists:\n"
    "    bigmac compare workloads/small.yaml\n"
    "  128 GPUs, speed and memory as a picture:\n"
    "    bigmac compare workloads/understanding.yaml --picture compare.svg --picture compare.png\n"
    "  Two of them, at one batch, on half of the GPUs:\n"
    "    bigmac compare workloads/understanding.yaml --schedule optimus,nested --gpus 64 \\\n"
    "        --samples-per-gpu 8\n"
    "  For machines:\n"
    "    bigmac compare workloads/small.yaml --json";

struct CompareArguments {
  WorkloadArguments workload;
  std::vector<std::string> pictures;
  bool json = false;
};

Comparison compare_with_bar(const Workload& workload, const std::vector<Arrangement>& systems, int threads) {
  Progress bar("compare", int64_t(systems.size() * workload.samples_per_gpu.size()));
  return compare(workload, systems, workload.samples_per_gpu, threads,
                 [&](int64_t done, int64_t) { bar.done(done, "systems and batches"); });
}

void run(const CompareArguments& arguments) {
  for (const auto& path : arguments.pictures) check_picture("--picture", path);
  Workload workload = workload_of(arguments.workload);
  auto systems = compared_systems(workload);
  if (systems.empty())
    throw InvalidInput(
        "--schedule: llm-only leaves out the workload's encoders and generators; nothing is left to compare");
  auto comparison = compare_with_bar(workload, systems, int(arguments.workload.threads));
  write_stdout(arguments.json ? line_of(json_of(comparison, workload)) : to_text(comparison, workload));
  for (const auto& path : arguments.pictures) write_picture(path, to_svg(chart_of(comparison, workload)));
  if (!any_fits(comparison)) throw Failure("no configuration of any system fits into memory");
}

}  // namespace

void add_compare_command(CLI::App& program) {
  auto* command = program.add_subcommand("compare", kAbout);
  auto arguments = std::make_shared<CompareArguments>();
  add_workload_options(*command, arguments->workload, "all", "1f1b,interleaved");
  add_batch_option(*command, arguments->workload, "N,...", "The batches: samples of a step over GPUs",
                   "all of the workload's");
  CLI::callback_t take = [arguments](const CLI::results_t& paths) {
    arguments->pictures = paths;
    return true;
  };
  command
      ->add_option("--picture", take,
                   "Draw speed and memory over the batch, as .svg or .png; may be given several times")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->type_name("FILE");
  add_switch(*command, "--json", arguments->json, "Print all of it as JSON, in seconds and bytes");
  command->footer(kExamples);
  command->callback([arguments] { run(*arguments); });
}

}  // namespace bigmac
