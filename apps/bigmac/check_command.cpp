#include "apps/bigmac/check_command.h"

#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "apps/bigmac/report_text.h"
#include "bigmac/command/arguments.h"
#include "bigmac/command/console.h"
#include "bigmac/common/error.h"
#include "bigmac/formats/read_table.h"
#include "bigmac/formats/torch_table.h"
#include "bigmac/simulate/simulate.h"

namespace bigmac {
namespace {

constexpr char kAbout[] =
    "Says whether the table in a file is complete and runs: every operator once, on its own rank, no "
    "dependency "
    "broken, no deadlock; and how long it would take. Reads bigmac's own JSON and CSV, and the CSV of "
    "torch.distributed.pipelining, of which it also checks sends, receives and sharding.\n"
    "\n"
    "What is wrong is printed with rank and position, a circle of waiting ranks rank by rank; the exit code "
    "is 1 "
    "then, and 2 for a file that cannot be read.";

constexpr char kExamples[] =
    "Examples:\n"
    "  A schedule that torch has dumped:\n"
    "    bigmac check schedule.csv\n"
    "  The same, where a send waits until the other rank has come to its receive:\n"
    "    bigmac check schedule.csv --sends blocking\n"
    "  What it takes with these times of one stage's forward, input gradient and weight gradient:\n"
    "    bigmac check schedule.csv --backbone 1,1.2,0.8 --latency 0.05\n"
    "  A table of our own, with times of the encoder on an item of size 1:\n"
    "    bigmac schedule --pp 4 --microbatches 16 --encoder --format csv --output table.csv\n"
    "    bigmac check table.csv --encoder 0.5,1";

struct CheckArguments {
  std::string file;
  Sends sends = Sends::buffered;
  WorkTimes backbone{1, 2, {}};
  WorkTimes encoder, generator;
  double latency = 0;
  bool json = false;
};

Costs costs_of(const CheckArguments& arguments, const Step& step) {
  const auto& backbone = arguments.backbone;
  Costs costs{.forward = {backbone.forward}, .backward = {backbone.backward}, .latency = arguments.latency};
  if (backbone.weight) costs.weight = {*backbone.weight};
  for (const auto& module : step.modules) {
    const auto& times = module.kind == Module::encoder ? arguments.encoder : arguments.generator;
    costs.modules.push_back({times.forward, times.backward});
  }
  return costs;
}

// Where torch's table says itself what is sent when, that decides; else our own rule for sends (sends.h).
std::vector<std::string> problems_of(const TableFile& file, Sends sends) {
  bool communicates = file.torch && has_communication(*file.torch);
  auto problems = check(file.schedule, communicates ? Sends::buffered : sends);
  if (!communicates) return problems;
  auto more = check_communication(*file.torch, sends);
  problems.insert(problems.end(), more.begin(), more.end());
  return problems;
}

// By module, "" for the backbone, and operator.
using Counts = std::map<std::string, std::map<Phase, int64_t>>;

Counts counts_of(const Schedule& schedule) {
  Counts counts;
  for (const auto& op : schedule.operators) {
    bool backbone = op.module == Module::backbone;
    ++counts[backbone ? "" : schedule.module_of(schedule.shares.list[op.index]).name][op.phase];
  }
  return counts;
}

std::string ok_text(const Schedule& schedule, const StepReport& report) {
  const Step& step = schedule.step;
  auto counted = [](int64_t number, const char* one, const char* more) {
    return concat(number, " ", number == 1 ? one : more);
  };
  auto text =
      concat("ok: ", counted(step.ranks, "rank", "ranks"), ", ", counted(step.stages(), "stage", "stages"),
             ", ", counted(step.microbatches, "microbatch", "microbatches"), ", ",
             counted(int64_t(schedule.operators.size()), "operator", "operators"), ":");
  const char* separator = " ";
  for (const auto& [module, phases] : counts_of(schedule))
    for (const auto& [phase, count] : phases) {
      text += concat(separator, count, " ", module, module.empty() ? "" : " ", letter(phase));
      separator = ", ";
    }
  int64_t chunks = 0;
  std::vector<double> units(report.modules.size(), 0);
  for (const auto& peak : report.peaks) {
    chunks = std::max(chunks, peak.in_flight);
    for (size_t n = 0; n < units.size(); ++n) units[n] = std::max(units[n], peak.units[n]);
  }
  text += concat("; at most ", chunks, " chunk-forwards live on a rank");
  for (size_t n = 0; n < units.size(); ++n)
    text += concat(", ", units_text(units[n]), " units of ", report.modules[n]);
  return text + "\n\n";
}

nlohmann::ordered_json json_of(const CheckArguments& arguments, const TableFile& file,
                               const std::vector<std::string>& problems) {
  const Step& step = file.schedule.step;
  nlohmann::ordered_json json{{"file", arguments.file},         {"format", name(file.format)},
                              {"sends", name(arguments.sends)}, {"ok", problems.empty()},
                              {"problems", problems},           {"ranks", step.ranks},
                              {"stages", step.stages()},        {"microbatches", step.microbatches}};
  json["operators"] = nlohmann::ordered_json::array();
  for (const auto& [module, phases] : counts_of(file.schedule))
    for (const auto& [phase, count] : phases)
      json["operators"].push_back(
          {{"module", module.empty() ? "backbone" : module}, {"operator", letter(phase)}, {"count", count}});
  return json;
}

void note_costless_modules(const CheckArguments& arguments, const Step& step) {
  auto note = [&](Module kind, const WorkTimes& times) {
    if (!step.has(kind) && times.forward + times.backward > 0)
      print_note(concat("the table has no ", name(kind), ": --", name(kind), " has no effect"));
    if (step.has(kind) && times.forward + times.backward == 0)
      print_note(
          concat("the table's ", name(kind), " operators take no time; say how much with --", name(kind)));
  };
  if (step.arrangement == Arrangement::llm_only) return;
  note(Module::encoder, arguments.encoder);
  note(Module::generator, arguments.generator);
}

std::string dumped(const nlohmann::ordered_json& json) {
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

// Where sends block, what they wait for is the table's own, or a rule's.
void note_rule(const CheckArguments& arguments, const TableFile& file) {
  if (file.torch && arguments.sends == Sends::blocking && !has_communication(*file.torch))
    print_note(
        "the table has no SEND and RECV of its own: each rank is taken to post one receive at a time in each "
        "direction (docs/schedule.md)");
}

void tell_problems(const CheckArguments& arguments, const TableFile& file,
                   const std::vector<std::string>& problems) {
  std::string text;
  for (const auto& problem : problems) text += problem + "\n";
  write_stdout(arguments.json ? dumped(json_of(arguments, file, problems)) : text);
  throw Failure(concat("'", arguments.file, "' holds no table that runs: ", problems.size(),
                       problems.size() == 1 ? " problem" : " problems"));
}

void run(const CheckArguments& arguments) {
  auto file = read_table(arguments.file);
  auto problems = problems_of(file, arguments.sends);
  note_rule(arguments, file);
  if (!problems.empty()) tell_problems(arguments, file, problems);
  const Schedule& schedule = file.schedule;
  auto costs = costs_of(arguments, schedule.step);
  auto found = report(schedule, costs, simulate(schedule, costs));
  note_costless_modules(arguments, schedule.step);
  if (!arguments.json) {
    write_stdout(ok_text(schedule, found) + to_text(schedule, costs, found));
    return;
  }
  auto json = json_of(arguments, file, problems);
  json["report"] = nlohmann::ordered_json::parse(to_json(found));
  write_stdout(dumped(json));
}

}  // namespace

void add_check_command(CLI::App& program) {
  auto* command = program.add_subcommand("check", kAbout);
  auto arguments = std::make_shared<CheckArguments>();
  command->add_option("FILE", arguments->file, "The table: bigmac's JSON or CSV, or torch's CSV")->required();
  add_choice(
      *command, "--sends", "buffered|blocking",
      [arguments](const std::string& text) { arguments->sends = sends_from_name(text); },
      "What is assumed of sends: they leave at once, or wait until their receive is posted")
      ->default_str("buffered");
  add_work(*command, "--backbone", arguments->backbone, "Times of one chunk of the LLM on one microbatch")
      ->default_str("1,2");
  add_two_times(*command, "--encoder", arguments->encoder, "Times of the encoders on an item of size 1")
      ->default_str("0,0");
  add_two_times(*command, "--generator", arguments->generator, "Times of the generators, likewise")
      ->default_str("0,0");
  add_time(*command, "--latency", arguments->latency, "Time of a message between two ranks")
      ->default_str("0");
  add_switch(*command, "--json", arguments->json, "Print all of it as JSON");
  command->footer(kExamples);
  command->callback([arguments] { run(*arguments); });
}

}  // namespace bigmac
