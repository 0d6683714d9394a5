#include "apps/bigmac/schedule_command.h"

#include <unistd.h>

#include <memory>

#include "apps/bigmac/arguments.h"
#include "apps/bigmac/console.h"
#include "bigmac/common/error.h"
#include "bigmac/common/names.h"
#include "bigmac/schedule/check.h"
#include "bigmac/schedule/nest.h"
#include "bigmac/schedule/text.h"

namespace bigmac {
namespace {

constexpr char kAbout[] =
    "Prints the whole table of one training step: for every pipeline rank, the operators that it runs, in "
    "order. The table is checked first: every operator once, no dependency broken, no deadlock.\n"
    "\n"
    "In the grid a line is a rank and a column a slot of equal time: F0.3 is the forward of chunk 0 on "
    "microbatch 3, B0.3 its backward; EF3 and EB3 are the encoder's; G3 is the generator's forward and "
    "backward. Blanks are bubbles.";

constexpr char kExamples[] =
    "Examples:\n"
    "  The interleaved schedule of 4 ranks with 2 chunks each:\n"
    "    bigmac schedule --pp 4 --vpp 2 --microbatches 8 | less -S\n"
    "  The same with an encoder and a generator nested into it:\n"
    "    bigmac schedule --pp 4 --vpp 2 --microbatches 8 --encoder --generator | less -S\n"
    "  As a table for other programs, one operator a line:\n"
    "    bigmac schedule --pp 8 --microbatches 64 --encoder --format csv --output schedule.csv";

constexpr double kLargestGrid = 1 << 28;  // characters

enum class Format { grid, csv, json };

struct ScheduleArguments {
  TableArguments table;
  bool encoder = false;
  bool generator = false;
  Sends sends = Sends::buffered;
  Format format = Format::grid;
  std::optional<std::string> output;
};

Format format_from_name(const std::string& text) {
  if (text == "grid") return Format::grid;
  if (text == "csv") return Format::csv;
  if (text == "json") return Format::json;
  throw InvalidInput(unknown_name("format", text, {"grid", "csv", "json"}));
}

Sends sends_from_name(const std::string& text) {
  if (text == "buffered") return Sends::buffered;
  if (text == "blocking") return Sends::blocking;
  throw InvalidInput(unknown_name("kind of sends", text, {"buffered", "blocking"}));
}

std::string legend(const Step& step) {
  std::string text = "\nF0.3 forward of chunk 0, microbatch 3   B0.3 its backward";
  if (step.has_encoder()) text += "   EF3, EB3 encoder forward, backward";
  if (step.has_generator()) text += "   G3 generator";
  return text + "\n";
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

std::string to_text(const Schedule& schedule, Format format, bool colour) {
  if (format == Format::csv) return to_csv(schedule);
  if (format == Format::json) return to_json(schedule);
  check_grid_size(schedule);
  return to_grid(schedule, colour) + legend(schedule.step);
}

void run(const ScheduleArguments& arguments) {
  Step step = make_step(arguments.table, arguments.encoder, arguments.generator);
  Schedule schedule = make_schedule(step);
  if (auto problems = check(schedule, arguments.sends); !problems.empty())
    throw InvalidInput(concat("[schedule] ", problems.front()));
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
  add_table_options(*command, arguments->table);
  add_switch(*command, "--encoder", arguments->encoder, "The model has an encoder, run for every microbatch");
  add_switch(*command, "--generator", arguments->generator,
             "The model has a generator, run for every microbatch");
  add_choice(
      *command, "--sends", "buffered|blocking",
      [arguments](const std::string& text) { arguments->sends = sends_from_name(text); },
      "What the check for deadlocks assumes: a send leaves at once, or waits until its receive is posted")
      ->default_str("buffered");
  add_choice(
      *command, "--format", "grid|csv|json",
      [arguments](const std::string& text) { arguments->format = format_from_name(text); },
      "A picture of text; one operator a line as rank,position,module,operator,chunk,microbatch; or JSON")
      ->default_str("grid");
  add_path(*command, "--output", arguments->output, "Write there instead of to standard output");
  command->footer(kExamples);
  command->callback([arguments] { run(*arguments); });
}

}  // namespace bigmac
