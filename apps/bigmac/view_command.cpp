#include "apps/bigmac/view_command.h"

#include <filesystem>
#include <memory>

#include "apps/bigmac/output_files.h"
#include "apps/bigmac/recordings.h"
#include "bigmac/command/console.h"
#include "bigmac/view/page.h"

namespace bigmac {
namespace {

constexpr char kAbout[] =
    "Writes a page that shows every operator of a step: one HTML file to open in a browser, which needs no "
    "server and no network. It shows what each rank does when, why it waits, what the step's end hangs on, "
    "and what would help; zoom, search, compare and export are in it (? lists its keys).\n"
    "\n"
    "FILE is a step that was measured, as `bigmac replay` reads it (bigmac's own trace, a folder with a "
    "trace "
    "or dump for each rank, a trace of torch.profiler), or a table as `bigmac check` reads it, which is "
    "simulated. Several are shown one above the other on one axis of time, with the differences in numbers. "
    "NAME=FILE calls it NAME.";

constexpr char kExamples[] =
    "Examples:\n"
    "  The steps of a run, the typical one of them:\n"
    "    bigmac view runs/pp8 -o step.html\n"
    "  A step that bigmac has trained:\n"
    "    bigmac view out/emoji/trace.json\n"
    "  Two schedules beside one another:\n"
    "    bigmac simulate --pp 8 --microbatches 32 --encoder 0.5,1 --trace nested.json\n"
    "    bigmac simulate --pp 8 --microbatches 32 --encoder 0.5,1 --schedule megatron --trace megatron.json\n"
    "    bigmac view megatron=megatron.json nested=nested.json -o compare.html\n"
    "  A schedule of torch, with these times of a stage's forward, input and weight gradient:\n"
    "    bigmac view schedule.csv --backbone 1,1.2,0.8";

struct ViewArguments {
  std::vector<std::string> files;
  std::optional<std::string> output;
  std::string title;
  RecordingOptions options;
};

// "NAME=FILE", where no file is called that.
std::pair<std::string, std::string> name_and_path(const std::string& text) {
  auto equals = text.find('=');
  if (equals == std::string::npos || equals == 0 || std::filesystem::exists(text)) return {"", text};
  return {text.substr(0, equals), text.substr(equals + 1)};
}

// "step.json" -> "step.html", in the folder one is in.
std::string output_of(const ViewArguments& arguments) {
  if (arguments.output) return *arguments.output;
  std::filesystem::path path = name_and_path(arguments.files.front()).second;
  if (!path.has_filename()) path = path.parent_path();
  auto stem = path.filename().stem().string();
  return (stem.empty() || stem == "." || stem == ".." ? "view" : stem) + ".html";
}

void run(const ViewArguments& arguments) {
  auto output = output_of(arguments);
  check_writable(output);
  std::vector<Recording> recordings;
  for (const auto& file : arguments.files) {
    auto [name, path] = name_and_path(file);
    recordings.push_back(read_recording(path, name, arguments.options));
  }
  for (size_t n = 1; n < recordings.size(); ++n)
    if (recordings[n].measured != recordings[0].measured) {
      print_note(
          "measured seconds and simulated units do not compare: each recording is drawn over its own length");
      break;
    }
  write_file(output, to_page(recordings, {.title = arguments.title}));
  write_stdout(concat("page: ", output, " (open it in a browser)\n"));
}

}  // namespace

void add_view_command(CLI::App& program) {
  auto* command = program.add_subcommand("view", kAbout);
  auto arguments = std::make_shared<ViewArguments>();
  command->add_option("FILE", arguments->files, "Measured steps or tables, each one a part of the page")
      ->required();
  add_path(*command, "-o,--output", arguments->output, "The page to write")
      ->default_str("the first FILE's name, with .html, in this folder");
  command->add_option("--title", arguments->title, "What stands above the page")
      ->type_name("TEXT")
      ->default_str("the recordings' names");
  add_recording_options(*command, arguments->options);
  command->footer(kExamples);
  command->callback([arguments] { run(*arguments); });
}

}  // namespace bigmac
