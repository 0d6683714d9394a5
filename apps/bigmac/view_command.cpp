#include "apps/bigmac/view_command.h"

#include <filesystem>
#include <memory>
#include <optional>

#include "apps/bigmac/output_files.h"
#include "apps/bigmac/recordings.h"
#include "apps/bigmac/serve.h"
#include "bigmac/command/console.h"
#include "bigmac/controls/answer.h"
#include "bigmac/controls/page_part.h"
#include "bigmac/view/page.h"

namespace bigmac {
namespace {

constexpr char kAbout[] =
    "Writes a page that shows every operator of a step: one HTML file to open in a browser, which needs no "
    "server and no network. It shows what each rank does when, why it waits, what the step's end hangs on, "
    "and what would help; zoom, search, compare and export are in it (? lists its keys).\n"
    "\n"
    "FILE is a step that was measured, as `bigmac replay` reads it (the profile/ of a training run, bigmac's "
    "own trace, a folder with a trace or dump for each rank, a trace of torch.profiler), or a table as "
    "`bigmac "
    "check` reads it, which is "
    "simulated. Several are shown one above the other on one axis of time, with the differences in numbers. "
    "NAME=FILE calls it NAME.\n"
    "\n"
    "The page of a table has controls: P, V, M, schedule, base, W and costs are moved by sliders, and the "
    "step is simulated in the page at once. --controls writes such a page without a FILE.\n"
    "\n"
    "--serve shows the page at an address instead of writing it, until Ctrl-C. Reloading it in the browser "
    "reads FILE again, with the steps that a run has made by then.";

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
    "    bigmac view schedule.csv --backbone 1,1.2,0.8\n"
    "  What W, the base or more chunks would change, by sliders:\n"
    "    bigmac view --controls\n"
    "  On a cluster's login node, seen on a laptop at http://127.0.0.1:7070/:\n"
    "    bigmac view runs/pp8 --serve\n"
    "    ssh -L 7070:127.0.0.1:7070 LOGIN_NODE";

constexpr int kMostPort = 65535;

struct ViewArguments {
  std::vector<std::string> files;
  std::optional<std::string> output;
  std::string title;
  bool controls = false;
  bool serves = false;
  std::optional<std::string> host;
  std::optional<int> port;
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
  if (arguments.files.empty()) return "controls.html";
  std::filesystem::path path = name_and_path(arguments.files.front()).second;
  if (!path.has_filename()) path = path.parent_path();
  auto stem = path.filename().stem().string();
  return (stem.empty() || stem == "." || stem == ".." ? "view" : stem) + ".html";
}

// A step to begin with where there is no file: interleaved, its encoder in the bubbles too.
Controls first_controls() {
  return {.ranks = 8,
          .chunks = 2,
          .microbatches = 32,
          .arrangement = Arrangement::nested_fill,
          .encoder = {.forward = 0.5, .backward = 1, .items = 8}};
}

std::vector<Recording> recordings_of(const ViewArguments& arguments) {
  std::vector<Recording> recordings;
  for (const auto& file : arguments.files) {
    auto [name, path] = name_and_path(file);
    recordings.push_back(read_recording(path, name, arguments.options));
    print_notes_of_damage(recordings.back());
  }
  if (recordings.empty()) recordings.push_back(controlled(first_controls()).recording);
  return recordings;
}

// Those of the first table.
std::string controls_of(const ViewArguments& arguments, const std::vector<Recording>& recordings) {
  PagePart part{.open = arguments.controls, .server = arguments.serves};
  if (arguments.files.empty()) return controls_part({first_controls(), {}}, part);
  for (const auto& recording : recordings) {
    const auto& step = recording.schedule.step;
    if (!recording.measured)
      return controls_part(nearest_controls(step, costs_of(step, arguments.options)), part);
  }
  if (arguments.controls)
    throw InvalidInput(
        concat("--controls: '", name_and_path(arguments.files.front()).second,
               "' was measured, and controls begin with a table that is simulated; leave FILE out for a step "
               "to begin with"));
  return "";
}

std::string page_of(const ViewArguments& arguments) {
  auto recordings = recordings_of(arguments);
  return to_page(recordings, {.title = arguments.title, .controls = controls_of(arguments, recordings)});
}

void note_units(const std::vector<Recording>& recordings) {
  for (size_t n = 1; n < recordings.size(); ++n)
    if (recordings[n].measured != recordings[0].measured) {
      print_note(
          "measured seconds and simulated units do not compare: each recording is drawn over its own length");
      break;
    }
}

void write(const ViewArguments& arguments) {
  auto output = output_of(arguments);
  check_writable(output);
  auto recordings = recordings_of(arguments);
  note_units(recordings);
  write_file(output,
             to_page(recordings, {.title = arguments.title, .controls = controls_of(arguments, recordings)}));
  write_stdout(concat("page: ", output, " (open it in a browser)\n"));
}

void serve_page(const ViewArguments& arguments) {
  ServeOptions options;
  if (arguments.host) options.host = *arguments.host;
  if (arguments.port) options.port = *arguments.port;
  note_units(recordings_of(arguments));
  serve(
      options, [&] { return page_of(arguments); }, [](const std::string& request) { return answer(request); },
      [](const std::string& address) { write_stdout(concat("page: ", address, " (Ctrl-C ends it)\n")); });
}

void check(const ViewArguments& arguments) {
  if (arguments.files.empty() && !arguments.controls)
    throw InvalidInput("view needs a FILE, or --controls for a page without one");
  if (arguments.serves && arguments.output)
    throw InvalidInput("--serve shows the page at an address and writes none: leave --output out");
  if (!arguments.serves && (arguments.host || arguments.port))
    throw InvalidInput(
        concat(arguments.host ? "--host" : "--port", " says where --serve listens; give --serve"));
  if (arguments.controls && engine().empty() && !arguments.serves)
    throw InvalidInput(
        "--controls: this bigmac was built without WebAssembly (BIGMAC_WASM), so a page cannot simulate; "
        "--serve lets it ask this program");
}

void run(const ViewArguments& arguments) {
  check(arguments);
  arguments.serves ? serve_page(arguments) : write(arguments);
}

}  // namespace

void add_view_command(CLI::App& program) {
  auto* command = program.add_subcommand("view", kAbout);
  auto arguments = std::make_shared<ViewArguments>();
  command->add_option("FILE", arguments->files, "Measured steps or tables, each one a part of the page");
  add_path(*command, "-o,--output", arguments->output, "The page to write")
      ->default_str("the first FILE's name, with .html, in this folder");
  command->add_option("--title", arguments->title, "What stands above the page")
      ->type_name("TEXT")
      ->default_str("the recordings' names");
  add_switch(*command, "--controls", arguments->controls,
             "Show the controls first: those of a table, or without FILE of a step to begin with");
  add_switch(*command, "--serve", arguments->serves,
             "Serve the page at http://127.0.0.1:PORT/ until Ctrl-C; a reload reads FILE again");
  add_whole(
      *command, "--port", 0,
      [arguments](int64_t port) {
        if (port > kMostPort)
          throw must_be("--port", "a port from 0 (any free one) to 65535", std::to_string(port));
        arguments->port = int(port);
      },
      "With --serve: the port; 0 takes any free one")
      ->default_str("7070");
  command
      ->add_option_function<std::string>(
          "--host", [arguments](const std::string& host) { arguments->host = host; },
          "With --serve: the address to listen on. Whoever reaches another than 127.0.0.1 sees the page")
      ->type_name("ADDRESS")
      ->default_str("127.0.0.1");
  add_recording_options(*command, arguments->options);
  command->footer(kExamples);
  command->callback([arguments] { run(*arguments); });
}

}  // namespace bigmac
