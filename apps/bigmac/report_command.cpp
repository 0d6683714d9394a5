#include "apps/bigmac/report_command.h"

#include <filesystem>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>

#include "apps/bigmac/analysis_json.h"
#include "apps/bigmac/analysis_text.h"
#include "apps/bigmac/reading.h"
#include "bigmac/command/arguments.h"
#include "bigmac/command/console.h"
#include "bigmac/common/error.h"
#include "bigmac/formats/read_table.h"
#include "bigmac/measured/json_stream.h"
#include "bigmac/measured/recorded.h"

namespace bigmac {
namespace {

constexpr char kAbout[] =
    "Says why a measured step takes as long as it does: which rank, stage, link, item or microbatch costs "
    "how much of it, what ranks wait for, what the critical path consists of, how the step differs from its "
    "simulation, and what would make it shorter, each with its simulated gain.\n"
    "\n"
    "TRACE is what bigmac replay reads: the profile/ of a training run, also of one that has crashed or "
    "hangs; "
    "bigmac's own traces, Primus pipeline dumps, traces of torch.profiler; one file for all ranks, a file "
    "for "
    "each, or their folder.";

constexpr char kExamples[] =
    "Examples:\n"
    "  A step that bigmac has trained:\n"
    "    bigmac report out/emoji/profile\n"
    "  Iteration 7 of a run of Primus:\n"
    "    bigmac report runs/pp8 --step 7\n"
    "  What has changed since yesterday's trace:\n"
    "    bigmac report today.json --against yesterday.json\n"
    "  Against the table that should have run:\n"
    "    bigmac report trace.json --against table.json\n"
    "  Of stages with these layers, a better split:\n"
    "    bigmac report trace.json --layout 'Et*4|t*4|t*4|t*4L'\n"
    "  For machines:\n"
    "    bigmac report trace.json --json | jq .findings";

struct ReportArguments {
  std::vector<std::string> paths;
  ReadOptions read;
  std::optional<int64_t> step;
  std::optional<std::string> against;
  std::optional<std::string> layout;
  bool try_all = false, json = false;
};

// A table of ours or torch's, by how the file begins; else a trace.
bool is_table(const std::string& path) {
  constexpr size_t kBeginning = 4096;
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) return false;
  auto text = json::beginning_of(path, kBeginning);
  auto first = text.find_first_not_of(" \t\r\n");
  if (first == std::string::npos || text[first] == '[') return false;
  if (text[first] != '{') return true;
  return text.find("\"traceEvents\"") == std::string::npos && text.find("\"rows\"") != std::string::npos;
}

void check_whole(const Recording& recording) {
  if (!recording.missing.empty())
    throw InvalidInput(concat("--against compares whole steps; ", recording.name,
                              " is not whole: ", recording.missing.front()));
}

StepGap gap_to(const ReportArguments& arguments, const Recording& recording) {
  check_whole(recording);
  auto model = model_of(recording.schedule, recording.timeline);
  const auto& path = *arguments.against;
  if (is_table(path)) {
    auto table = read_table(path).schedule;
    return gap_to_simulated(recording, model, table,
                            concat("the table ", path, ", simulated with this step's mean costs"));
  }
  auto other = recorded_step({path}, with_progress(arguments.read));
  check_whole(other);
  return gap_between(recording, model, other);
}

AnalysisOptions options_of(const ReportArguments& arguments) {
  AnalysisOptions options;
  if (arguments.try_all) options.most_operators = std::numeric_limits<int64_t>::max();
  if (arguments.layout) options.layout = parse_layout(*arguments.layout);
  return options;
}

void run(const ReportArguments& arguments) {
  auto name = arguments.step ? std::optional(std::to_string(*arguments.step)) : std::nullopt;
  auto recording = recorded_step(arguments.paths, with_progress(arguments.read), name);
  auto analysis = analyse(recording, options_of(arguments));
  if (arguments.against) analysis.gap = gap_to(arguments, recording);
  if (arguments.json) {
    constexpr auto kReplace = nlohmann::ordered_json::error_handler_t::replace;
    write_stdout(to_json(recording, analysis).dump(-1, ' ', false, kReplace) + "\n");
    return;
  }
  write_stdout(to_text(recording, analysis, wants_colour(1)));
}

}  // namespace

void add_report_command(CLI::App& program) {
  auto* command = program.add_subcommand("report", kAbout);
  auto arguments = std::make_shared<ReportArguments>();
  command->add_option("TRACE", arguments->paths, "A folder, or a file for each rank")->required();
  add_choice(
      *command, "--against", "SCHEDULE|TRACE",
      [arguments](const std::string& path) { arguments->against = path; },
      "Compare with another trace of the same step, or with a table (bigmac's JSON or CSV, torch's CSV), and "
      "divide the difference into operator times, links and order")
      ->default_str("its own table, simulated with the mean of every stage");
  add_whole(
      *command, "--step,--iteration", 0, [arguments](int64_t number) { arguments->step = number; },
      "This iteration")
      ->default_str("the one with the median length");
  add_reading_options(*command, arguments->read);
  command
      ->add_option_function<std::string>(
          "--layout", [arguments](const std::string& text) { arguments->layout = text; },
          "What each stage of the measured step holds, as Megatron Core writes it ('Et*3|(tt|)*6tL'): tells "
          "stages with more layers from slow devices, and a better split layer by layer")
      ->type_name("LAYOUT");
  add_switch(*command, "--try-all", arguments->try_all,
             "Try every schedule, however long that takes (steps of more than 100,000 operators)");
  add_switch(*command, "--json", arguments->json, "Print all of it as JSON, times in seconds");
  command->footer(kExamples);
  command->callback([arguments] { run(*arguments); });
}

}  // namespace bigmac
