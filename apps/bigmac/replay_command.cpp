#include "apps/bigmac/replay_command.h"

#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "apps/bigmac/reading.h"
#include "apps/bigmac/replay_text.h"
#include "bigmac/command/arguments.h"
#include "bigmac/command/console.h"
#include "bigmac/measured/read_measured.h"
#include "bigmac/measured/replay.h"
#include "bigmac/timeline/picture.h"
#include "bigmac/timeline/trace.h"

namespace bigmac {
namespace {

constexpr char kAbout[] =
    "Reads steps that were measured, says what their operators cost, and runs these again: in their own "
    "order, which shows how far a simulation is from the truth, and in any other, which shows what that "
    "would bring.\n"
    "\n"
    "PATH is a folder, or a file for each rank: the profile/ of a training run; bigmac's own traces; Primus "
    "pipeline dumps (pp_rank_N.json); "
    "traces of torch.profiler, plain or gzip, in which each microbatch's forward and backward has a range of "
    "its own. Names understood: F0.3 (chunk.microbatch), PP:2F3, 'Forward 3', 'Backward 3', "
    "forward-compute, and Megatron's forward_step and backward_step as with_stack records them. Where a rank "
    "has the ranges on its GPU, these are taken.";

constexpr char kExamples[] =
    "Examples:\n"
    "  Every iteration of a run of Primus, and the typical one in detail:\n"
    "    bigmac replay runs/pp8\n"
    "  Its iteration 7, with a trace of the replay to open in https://ui.perfetto.dev:\n"
    "    bigmac replay runs/pp8 --iteration 7 --trace replay.json\n"
    "  What the same operators would take as interleaved 1F1B, each stage cut in two:\n"
    "    bigmac replay runs/pp8 --vpp 2\n"
    "  As zero bubble, with 32 microbatches and half a millisecond a message:\n"
    "    bigmac replay runs/pp8 --base zb-h1 --microbatches 32 --latency 0.5\n"
    "  Traces of torch.profiler, one a rank, of a pipeline with 2 chunks on each:\n"
    "    bigmac replay trace_rank*.json.gz --measured-vpp 2\n"
    "  A step that bigmac has trained, and the same with its encoder items in the bubbles:\n"
    "    bigmac replay out/emoji/trace.json --schedule nested-fill\n"
    "  Why the ranks wait:\n"
    "    bigmac replay runs/pp8 --iteration 7 --explain 3";

struct ReplayArguments {
  std::vector<std::string> paths;
  ReadOptions read;
  std::optional<int64_t> iteration, explain;
  Statistic statistic = Statistic::each;
  double latency = 0;  // ms
  std::optional<Base> base;
  std::optional<Arrangement> arrangement;
  std::optional<int64_t> chunks, group, microbatches;
  bool json = false;
  std::optional<std::string> trace, picture;

  bool other() const { return base || arrangement || chunks || group || microbatches; }
};

// A step of another schedule, from the measured one and what is to be different.
Step other_step(const ReplayArguments& arguments, const MeasuredStep& measured) {
  Step step = step_like(measured);
  step.chunks = arguments.chunks.value_or(step.chunks);
  step.base = arguments.base.value_or(step.chunks == 1 ? Base::one_f_one_b : Base::interleaved);
  step.group = arguments.group.value_or(0);
  if (arguments.arrangement) {
    step.arrangement = *arguments.arrangement;
    if (step.modules.empty() && step.arrangement != Arrangement::llm_only)
      print_note(concat("without encoders and generators the schedule ", name(step.arrangement),
                        " is the LLM's own"));
    if (step.arrangement == Arrangement::llm_only) step.modules.clear();
  }
  if (arguments.microbatches) {
    if (!step.order.empty() && *arguments.microbatches != step.microbatches) step.order.clear();
    step.microbatches = *arguments.microbatches;
  }
  return step;
}

void note_all(const std::vector<std::string>& notes) {
  constexpr size_t kMost = 5;
  for (size_t n = 0; n < std::min(kMost, notes.size()); ++n) print_note(notes[n]);
  if (notes.size() > kMost) print_note(concat("and ", notes.size() - kMost, " more; --json has all"));
}

void run(const ReplayArguments& arguments) {
  auto measurement = read_measured(arguments.paths, with_progress(arguments.read));
  const auto& step = arguments.iteration ? step_named(measurement, std::to_string(*arguments.iteration))
                                         : typical_step(measurement);
  double latency = arguments.latency * 1e-3;
  bool all = !arguments.iteration && measurement.steps.size() > 1;
  ReplayReport report{measurement, step, all, {&step}, latency};
  if (all) report.steps = behind_warmup(measurement);
  if (arguments.explain) report.waits = size_t(*arguments.explain);
  if (arguments.other())
    report.other = replay_as(step, other_step(arguments, step), arguments.statistic, latency);
  const auto& other = report.other;
  report.shown = other ? other->timeline : replay(step, arguments.statistic, latency);
  if (arguments.trace) write_trace(report.schedule(), report.shown, *arguments.trace);
  if (arguments.picture) {
    auto what = other ? describe(*other) : "replay of " + measurement.source;
    auto title = fmt::format("{}: {:.1f} ms", what, report.shown.length() * 1e3);
    write_file(*arguments.picture, to_svg(report.schedule(), in_milliseconds(report.shown), title));
  }
  if (arguments.json) {
    constexpr auto kReplace = nlohmann::ordered_json::error_handler_t::replace;
    write_stdout(to_json(report).dump(-1, ' ', false, kReplace) + "\n");
    return;
  }
  note_all(measurement.notes);
  if (other) note_all(other->notes);
  auto text = to_text(report);
  if (arguments.trace)
    text += concat("\ntrace: ", *arguments.trace, " (open it in https://ui.perfetto.dev)\n");
  write_stdout(text);
}

void add_other_options(CLI::App& command, ReplayArguments& arguments) {
  auto take = [](std::optional<int64_t>& field) { return [&field](int64_t value) { field = value; }; };
  add_choice(
      command, "--base", "gpipe|1f1b|interleaved|zb-h1|zb-v|dualpipe-v",
      [&arguments](const std::string& text) { arguments.base = made_base_from_name(text); },
      "Run the measured operators in this order of the LLM instead of their own")
      ->default_str("1f1b with one chunk, else interleaved");
  add_choice(
      command, "--schedule", "llm-only|nested|nested-fill|three-phase|optimus|megatron",
      [&arguments](const std::string& text) { arguments.arrangement = arrangement_from_name(text); },
      "And the measured encoders' and generators' at these places")
      ->default_str("nested, where there are any");
  add_whole(command, "--vpp", 1, take(arguments.chunks),
            "With V chunks a rank, a multiple of the measured ones: every stage is cut into equal parts")
      ->default_str("as measured");
  add_whole(command, "--group", 1, take(arguments.group), "G of the interleaved order")->default_str("P");
  add_whole(command, "--microbatches", 1, take(arguments.microbatches), "With M microbatches, of mean times")
      ->default_str("as measured");
}

}  // namespace

void add_replay_command(CLI::App& program) {
  auto* command = program.add_subcommand("replay", kAbout);
  auto arguments = std::make_shared<ReplayArguments>();
  command->add_option("PATH", arguments->paths, "A folder, or a file for each rank")->required();
  add_whole(
      *command, "--iteration,--step", 0, [arguments](int64_t number) { arguments->iteration = number; },
      "Only this iteration")
      ->default_str("all, and the one with the median step in detail");
  add_reading_options(*command, arguments->read);
  add_choice(
      *command, "--statistic", "each|mean|median",
      [arguments](const std::string& text) { arguments->statistic = statistic_from_name(text); },
      "What stands for an operator's time in the trace, the picture and the other schedule: every measured "
      "one itself, or the mean or median of its stage")
      ->default_str("each");
  add_time(*command, "--latency", arguments->latency, "Milliseconds of a message between two ranks")
      ->type_name("MS")
      ->default_str("0");
  add_other_options(*command, *arguments);
  auto* explain = add_whole(
      *command, "--explain", 1, [arguments](int64_t waits) { arguments->explain = waits; },
      "Print why the replay, or the other schedule, takes so long: its critical path, and the N longest "
      "waits of each rank");
  value_may_be_left_out(explain, "3");
  add_switch(*command, "--json", arguments->json, "Print all of it as JSON, times in seconds");
  add_path(*command, "--trace", arguments->trace,
           "Write the replay, or the other schedule, as Chrome trace events");
  add_path(*command, "--picture", arguments->picture, "Draw the same as SVG");
  command->footer(kExamples);
  command->callback([arguments] { run(*arguments); });
}

}  // namespace bigmac
