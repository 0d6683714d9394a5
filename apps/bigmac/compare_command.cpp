#include "apps/bigmac/compare_command.h"

#include <memory>
#include <nlohmann/json.hpp>

#include "apps/bigmac/arguments.h"
#include "apps/bigmac/compare_chart.h"
#include "apps/bigmac/console.h"
#include "apps/bigmac/plan_text.h"
#include "apps/bigmac/progress.h"
#include "apps/bigmac/workload_arguments.h"
#include "bigmac/picture/raster.h"
#include "bigmac/plan/plan_json.h"

namespace bigmac {
namespace {

constexpr char kAbout[] =
    "Compares the systems that multimodal models are trained with, over the workload's batches: an encoder in the "
    "first stage and a generator in the last (megatron), ranks of their own (disttrain), beside the pipeline "
    "(three-phase), in its bubbles (optimus), and nested into it (nested, nested-fill). Each is searched for its own "
    "best configuration under the same memory.";

constexpr char kExamples[] =
    "Examples:\n"
    "  All systems, over the batches that the workload lists:\n"
    "    bigmac compare workloads/understanding.yaml\n"
    "  Speed and memory as a picture:\n"
    "    bigmac compare workloads/generation.yaml --picture generation.svg --picture generation.png\n"
    "  Two of them, at one batch, for machines:\n"
    "    bigmac compare workloads/understanding.yaml --schedule optimus,nested --samples-per-gpu 8 --json";

struct CompareArguments {
  WorkloadArguments workload;
  std::vector<std::string> pictures;
  bool json = false;
};

bool is_png(const std::string& path) {
  return path.ends_with(".png");
}

void check_picture(const std::string& path) {
  if (!is_png(path) && !path.ends_with(".svg"))
    throw InvalidInput(concat("--picture must end with .svg or .png, got '", path, "'"));
}

void run(const CompareArguments& arguments) {
  for (const auto& path : arguments.pictures) check_picture(path);
  Workload workload = workload_of(arguments.workload);
  auto systems = compared_systems(workload);
  Comparison comparison;
  {
    Progress bar("compare", int64_t(systems.size() * workload.samples_per_gpu.size()));
    comparison = compare(workload, systems, workload.samples_per_gpu, int(arguments.workload.threads),
                         [&](int64_t done, int64_t) { bar.done(done, "systems and batches"); });
  }
  for (const auto& path : arguments.pictures) {
    auto svg = to_svg(chart_of(comparison, workload));
    write_file(path, is_png(path) ? png_of(svg) : svg);
  }
  write_stdout(arguments.json ? json_of(comparison, workload).dump() + "\n" : to_text(comparison, workload));
}

}  // namespace

void add_compare_command(CLI::App& program) {
  auto* command = program.add_subcommand("compare", kAbout);
  auto arguments = std::make_shared<CompareArguments>();
  add_workload_options(*command, arguments->workload);
  add_choice(
      *command, "--picture", "FILE", [arguments](const std::string& path) { arguments->pictures.push_back(path); },
      "Draw speed and memory over the batch, as .svg or .png; may be given twice")
      ->take_all();
  add_switch(*command, "--json", arguments->json, "Print all of it as JSON, in seconds and bytes");
  command->footer(kExamples);
  command->callback([arguments] { run(*arguments); });
}

}  // namespace bigmac
