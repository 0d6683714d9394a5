#include "apps/bigmac/simulate_command.h"

#include <memory>

#include "apps/bigmac/arguments.h"
#include "apps/bigmac/console.h"
#include "apps/bigmac/report_text.h"
#include "bigmac/common/error.h"
#include "bigmac/schedule/nest.h"
#include "bigmac/simulate/simulate.h"
#include "bigmac/timeline/picture.h"
#include "bigmac/timeline/trace.h"

namespace bigmac {
namespace {

constexpr char kAbout[] =
    "Says how long a training step would take when its operators take the times given, what each rank "
    "would do meanwhile, and how much it would hold at once. Times are in any one unit; nested work is "
    "placed with the same times.";

constexpr char kExamples[] =
    "Examples:\n"
    "  8 ranks with 2 chunks each, the LLM alone:\n"
    "    bigmac simulate --pp 8 --vpp 2 --microbatches 64 --backbone 1,2\n"
    "  With an encoder and a generator nested into it, and a trace to open in https://ui.perfetto.dev:\n"
    "    bigmac simulate --pp 8 --vpp 2 --microbatches 64 \\\n"
    "        --encoder 0.5,1 --generator 2,4 --trace step.json\n"
    "  What it costs in memory to run all encoder forwards first:\n"
    "    bigmac simulate --pp 8 --vpp 2 --microbatches 64 --encoder 0.5,1 --schedule three-phase";

struct SimulateArguments {
  TableArguments table;
  std::optional<WorkTimes> backbone = WorkTimes{1, 2};
  std::optional<WorkTimes> encoder;
  std::optional<WorkTimes> generator;
  double latency = 0;
  bool json = false;
  std::optional<std::string> trace;
  std::optional<std::string> picture;
};

Costs costs_of(const SimulateArguments& arguments) {
  auto backbone = *arguments.backbone;
  if (backbone.forward + backbone.backward == 0)
    throw InvalidInput("--backbone must have a forward or a backward that takes time, got 0,0");
  auto encoder = arguments.encoder.value_or(WorkTimes{});
  auto generator = arguments.generator.value_or(WorkTimes{});
  return {.forward = {backbone.forward},
          .backward = {backbone.backward},
          .encoder_forward = encoder.forward,
          .encoder_backward = encoder.backward,
          .generator_forward = generator.forward,
          .generator_backward = generator.backward,
          .latency = arguments.latency};
}

void run(const SimulateArguments& arguments) {
  Costs costs = costs_of(arguments);
  Step step = make_step(arguments.table, arguments.encoder.has_value(), arguments.generator.has_value());
  Schedule schedule = make_schedule(step, costs);
  Timeline timeline = simulate(schedule, costs);
  StepReport step_report = report(schedule, costs, timeline);
  if (arguments.trace) write_trace(timeline, *arguments.trace, 1000);
  if (arguments.picture)
    write_file(*arguments.picture,
               to_svg(timeline, concat(name(step.arrangement), " schedule, P=", step.ranks,
                                       " V=", step.chunks, " M=", step.microbatches, ": ", timeline.length(),
                                       " (ideal ", step_report.ideal, ")")));
  auto text = arguments.json ? to_json(step_report) : to_text(step, costs, step_report);
  if (arguments.trace && !arguments.json)
    text += concat("\ntrace: ", *arguments.trace, " (open it in https://ui.perfetto.dev)\n");
  write_stdout(text);
}

}  // namespace

void add_simulate_command(CLI::App& program) {
  auto* command = program.add_subcommand("simulate", kAbout);
  auto arguments = std::make_shared<SimulateArguments>();
  add_table_options(*command, arguments->table);
  add_work(*command, "--backbone", arguments->backbone, "Times of one chunk of the LLM on one microbatch")
      ->default_str("1,2");
  add_work(*command, "--encoder", arguments->encoder,
           "Times of the encoder on one microbatch, which one rank runs alone (default: no encoder)");
  add_work(*command, "--generator", arguments->generator,
           "Times of the generator on one microbatch, likewise (default: no generator)");
  add_time(*command, "--latency", arguments->latency, "Time of a message between two ranks")
      ->default_str("0");
  add_switch(*command, "--json", arguments->json, "Print the report as JSON");
  add_path(*command, "--trace", arguments->trace,
           "Write what every rank does when as Chrome trace events, a unit of time as a millisecond");
  add_path(*command, "--picture", arguments->picture, "Draw what every rank does when, as SVG");
  command->footer(kExamples);
  command->callback([arguments] { run(*arguments); });
}

}  // namespace bigmac
