#include "apps/bigmac/schedule_command.h"

#include <unistd.h>

#include <memory>

#include "apps/bigmac/share_text.h"
#include "apps/bigmac/step_arguments.h"
#include "bigmac/command/console.h"
#include "bigmac/common/names.h"
#include "bigmac/formats/table_csv.h"
#include "bigmac/formats/table_json.h"
#include "bigmac/formats/torch_table.h"
#include "bigmac/schedule/check.h"
#include "bigmac/schedule/grid.h"
#include "bigmac/schedule/make.h"

namespace bigmac {
namespace {

constexpr char kAbout[] =
    "Prints the whole table of one training step: for every pipeline rank, the operators that it runs, in "
    "order. The table is checked first: every operator once, no dependency broken, no deadlock.\n"
    "\n"
    "In the grid a line is a rank and every operator takes one column, whatever it costs: F0.3 is the "
    "forward of chunk 0 on "
    "microbatch 3, B0.3 its backward, I0.3 and W0.3 its input and weight gradients; EF3 and EB3 are an "
    "encoder's on what microbatch 3 has, EF3.1 on its item 1, EFu2 on items of unit 2, listed below; G3 is "
    "a generator's forward and backward. Blanks are bubbles.";

constexpr char kExamples[] =
    "Examples:\n"
    "  The interleaved schedule of 4 ranks with 2 chunks each:\n"
    "    bigmac schedule --pp 4 --vpp 2 --microbatches 8 | less -S\n"
    "  The same with an encoder and a generator nested into it:\n"
    "    bigmac schedule --pp 4 --vpp 2 --microbatches 8 --encoder --generator | less -S\n"
    "  Microbatches with 3 images each, which fill the LLM's bubbles:\n"
    "    bigmac schedule --pp 4 --microbatches 8 --encoder --items 3 --schedule nested-fill | less -S\n"
    "  As a table for other programs, one operator a line, which bigmac check reads back:\n"
    "    bigmac schedule --pp 8 --microbatches 64 --encoder --format csv --output schedule.csv\n"
    "  For torch.distributed.pipelining (_PipelineScheduleRuntime), the LLM alone:\n"
    "    bigmac schedule --pp 4 --vpp 2 --microbatches 8 --base zb-v --format torch --output zbv.csv";

constexpr double kLargestGrid = 1 << 28;  // characters

enum class Format { grid, csv, json, torch, torch_old };
const std::vector<std::string> kFormats{"grid", "csv", "json", "torch", "torch-old"};

struct ScheduleArguments {
  StepArguments step;
  Sends sends = Sends::buffered;
  Format format = Format::grid;
  std::optional<std::string> output;
};

Format format_from_name(const std::string& text) {
  for (size_t i = 0; i < kFormats.size(); ++i)
    if (text == kFormats[i]) return Format(i);
  throw InvalidInput(unknown_name("format", text, kFormats));
}

// Blanks count too, so a grid of many ranks can be far larger than its table.
void check_grid_size(const Schedule& schedule) {
  const Step& step = schedule.step;
  double columns = double(schedule.row(0).size()) + 2.0 * double(step.ranks);
  double characters = double(step.ranks) * columns * 8;
  if (characters > kLargestGrid)
    throw InvalidInput(concat("a grid of P=", step.ranks, " V=", step.chunks, " M=", step.microbatches,
                              " would have some ", characters, " characters; take --format csv or json"));
}

std::string grid_text(const Schedule& schedule, bool colour) {
  check_grid_size(schedule);
  auto text = to_grid(schedule, colour) + "\n" + grid_legend(schedule);
  return text + share_list(schedule);
}

std::string to_text(const Schedule& schedule, Format format, bool colour) {
  switch (format) {
    case Format::grid:
      return grid_text(schedule, colour);
    case Format::csv:
      return to_csv(schedule);
    case Format::json:
      return to_json(schedule);
    case Format::torch:
      return to_text(to_torch(schedule, TorchDialect::current), TorchDialect::current);
    case Format::torch_old:
      return to_text(to_torch(schedule, TorchDialect::old), TorchDialect::old);
  }
  return {};
}

void run(const ScheduleArguments& arguments) {
  auto [step, costs] = declare_step(arguments.step);
  Schedule schedule = make_schedule(step, costs);
  if (auto problems = check(schedule, arguments.sends); !problems.empty())
    throw Failure(concat("[schedule] ", problems.front()));
  bool colour = !arguments.output && wants_colour(STDOUT_FILENO);
  auto text = to_text(schedule, arguments.format, colour);
  if (arguments.output)
    write_file(*arguments.output, text);
  else
    write_stdout(text);
}

}  // namespace

void add_schedule_command(CLI::App& program) {
  auto* command = program.add_subcommand("schedule", kAbout);
  auto arguments = std::make_shared<ScheduleArguments>();
  add_step_options(*command, arguments->step);
  add_choice(
      *command, "--sends", "buffered|blocking",
      [arguments](const std::string& text) { arguments->sends = sends_from_name(text); },
      "What the check for deadlocks assumes: a send leaves at once, or waits until its receive is posted")
      ->default_str("buffered");
  add_choice(
      *command, "--format", "grid|csv|json|torch|torch-old",
      [arguments](const std::string& text) { arguments->format = format_from_name(text); },
      "A picture of text; one operator a line, or JSON, with everything that is known of the table; or the "
      "LLM's operators as torch.distributed.pipelining writes them, today or up to 2.5")
      ->default_str("grid");
  add_path(*command, "--output", arguments->output, "Write there instead of to standard output");
  command->footer(kExamples);
  command->callback([arguments] { run(*arguments); });
}

}  // namespace bigmac
