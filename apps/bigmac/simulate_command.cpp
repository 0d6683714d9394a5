#include "apps/bigmac/simulate_command.h"

#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "apps/bigmac/explain_text.h"
#include "apps/bigmac/report_text.h"
#include "apps/bigmac/step_arguments.h"
#include "bigmac/command/arguments.h"
#include "bigmac/command/console.h"
#include "bigmac/controls/page_part.h"
#include "bigmac/schedule/make.h"
#include "bigmac/simulate/links.h"
#include "bigmac/timeline/picture.h"
#include "bigmac/timeline/trace.h"
#include "bigmac/view/page.h"

namespace bigmac {
namespace {

constexpr char kAbout[] =
    "Says how long a training step would take when its operators take the times given, what each rank "
    "would do meanwhile, and how much it would hold at once. Times are in any one unit; encoder and "
    "generator work is placed with the same times.";

constexpr char kExamples[] =
    "Examples:\n"
    "  8 ranks with 2 chunks each, the LLM alone:\n"
    "    bigmac simulate --pp 8 --vpp 2 --microbatches 64 --backbone 1,2\n"
    "  With an encoder and a generator nested into it, and a trace to open in https://ui.perfetto.dev:\n"
    "    bigmac simulate --pp 8 --vpp 2 --microbatches 64 \\\n"
    "        --encoder 0.5,1 --generator 2,4 --trace step.json\n"
    "  Uneven data: 8 images a microbatch on average, half of the microbatches without any:\n"
    "    bigmac simulate --pp 8 --vpp 2 --microbatches 64 --encoder 0.5,1 --items random:8,1,0.5\n"
    "  One picture of uneven size to generate a microbatch, alike ones in one unit:\n"
    "    bigmac simulate --pp 8 --microbatches 128 --generator 2,4 --items random:1,0.5 --order balanced\n"
    "  Two encoders, the items of one as a file lists them:\n"
    "    bigmac simulate --pp 8 --vpp 2 --microbatches 64 --encoder image=0.5,1 --encoder audio=0.1,0.2 \\\n"
    "        --items image=images.csv --items audio=2\n"
    "  Encoder items in the LLM's bubbles, close to the lower bound:\n"
    "    bigmac simulate --pp 8 --vpp 2 --microbatches 32 --encoder 0.5,1 --items 16 \\\n"
    "        --schedule nested-fill\n"
    "  What other systems do with the same step, and what it costs them:\n"
    "    for s in megatron disttrain optimus three-phase nested; do\n"
    "      bigmac simulate --pp 8 --microbatches 64 --encoder 0.5,1 --schedule $s; done\n"
    "  Another base, its backward split into input and weight gradient:\n"
    "    bigmac simulate --pp 8 --vpp 2 --microbatches 64 --base zb-v --backbone 1,1,1 --encoder 0.5,1\n"
    "  Stages of different depth, from a layout of Megatron Core:\n"
    "    bigmac simulate --pp 8 --microbatches 64 --layout 'Et*3|(tttt|)*6tttL' --layers 30 --head 0.5,1\n"
    "  Messages that take time, in the exchange of Megatron Core that does nothing beside it:\n"
    "    bigmac simulate --pp 8 --vpp 2 --microbatches 64 --transfer 0.1 --exchange batched\n"
    "  Why the ranks wait, the 5 longest waits of each:\n"
    "    bigmac simulate --pp 4 --microbatches 16 --encoder 0.5,1 --schedule megatron --explain 5";

struct SimulateArguments {
  StepArguments step;
  std::optional<Exchange> exchange;
  std::vector<double> transfer;  // of a microbatch between stages, of an item of size 1
  bool json = false;
  std::optional<int64_t> explain;  // waits a rank
  std::optional<std::string> trace;
  std::optional<std::string> picture;
  std::optional<std::string> page;
};

std::string picture_title(const Schedule& schedule, const StepReport& report) {
  const Step& step = schedule.step;
  auto text = concat(name(step.arrangement), " schedule, ", shape(step), ": ", report.makespan);
  return report.ideal ? concat(text, " (ideal ", *report.ideal, ")") : text;
}

std::string json_text(const Schedule& schedule, const Costs& costs, const Timeline& timeline,
                      const StepReport& report, std::optional<int64_t> waits) {
  auto json = nlohmann::ordered_json::parse(to_json(report));
  if (auto imbalance = unit_imbalance(schedule, costs)) json["unit_imbalance"] = *imbalance;
  if (auto split = split_of(schedule))
    json["split"] = {
        {"encoder", split->encoder}, {"backbone", split->backbone}, {"generator", split->generator}};
  if (!schedule.step.order.empty()) json["order"] = schedule.step.order;
  if (waits) json["explain"] = explain_json(schedule, timeline, size_t(*waits));
  return json.dump() + "\n";
}

constexpr double kLongestTransfer = 1e12;

std::vector<double> parse_transfer(const std::string& text) {
  auto times = parse_numbers(text);
  bool legal = times.size() == 1 || times.size() == 2;
  for (double time : times) legal &= time >= 0 && time <= kLongestTransfer;
  if (!legal)
    throw InvalidInput(concat("must be one or two numbers from 0 to ", kLongestTransfer,
                              " as STAGE or STAGE,ITEM, such as 0.1,0.02, got '", text, "'"));
  return times;
}

// Without a word about links messages take their latency and nothing else.
Timeline timeline_of(const SimulateArguments& arguments, const Schedule& schedule, const Costs& costs) {
  if (!arguments.exchange && arguments.transfer.empty()) return simulate(schedule, costs);
  Links links{
      .exchange = arguments.exchange.value_or(Exchange::overlapped), .inside = {0, 1}, .between = {0, 1}};
  if (!arguments.transfer.empty()) links.stage_bytes = arguments.transfer[0];
  if (arguments.transfer.size() == 2) links.item_bytes = {arguments.transfer[1]};
  return simulate(schedule, costs, links);
}

void write_page(const SimulateArguments& arguments, const DeclaredStep& declared,
                const Recording& recording) {
  auto start = nearest_controls(declared.step, declared.costs);
  if (arguments.exchange || !arguments.transfer.empty())
    start.left_out.emplace_back("its messages take time on links; here they take their latency alone");
  write_file(*arguments.page, to_page({recording}, {.title = "", .controls = controls_part(start)}));
}

void run(const SimulateArguments& arguments) {
  const auto declared = declare_step(arguments.step);
  const Step& step = declared.step;
  Costs costs = declared.costs;
  Schedule schedule = make_schedule(step, costs);
  // disttrain has stages of its own.
  if (!schedule.step.stage_ranks.empty()) costs = costs_for_stages(step, schedule.step.stages(), costs);
  Timeline timeline = timeline_of(arguments, schedule, costs);
  StepReport step_report = report(schedule, costs, timeline);
  if (arguments.trace) write_trace(schedule, timeline, *arguments.trace, 1000);
  if (arguments.picture)
    write_file(*arguments.picture, to_svg(schedule, timeline, picture_title(schedule, step_report)));
  if (arguments.page) {
    auto title = picture_title(schedule, step_report);
    write_page(arguments, declared, {.name = title, .schedule = schedule, .timeline = timeline});
  }
  if (arguments.json) {
    write_stdout(json_text(schedule, costs, timeline, step_report, arguments.explain));
    return;
  }
  auto text = to_text(schedule, costs, step_report);
  if (arguments.explain) text += "\n" + explain_text(schedule, timeline, size_t(*arguments.explain));
  if (arguments.trace)
    text += concat("\ntrace: ", *arguments.trace, " (open it in https://ui.perfetto.dev)\n");
  write_stdout(text);
}

}  // namespace

void add_simulate_command(CLI::App& program) {
  auto* command = program.add_subcommand("simulate", kAbout);
  auto arguments = std::make_shared<SimulateArguments>();
  add_step_options(*command, arguments->step);
  add_choice(
      *command, "--exchange", "overlapped|in-order|batched",
      [arguments](const std::string& text) { arguments->exchange = exchange_from_name(text); },
      "How ranks exchange messages: beside computing, the same through one queue for each pair of ranks and "
      "direction, or doing nothing else meanwhile")
      ->default_str("overlapped");
  add_choice(
      *command, "--transfer", "STAGE[,ITEM]",
      [arguments](const std::string& text) { arguments->transfer = parse_transfer(text); },
      "What a message takes on the link beside its latency: a microbatch's activation or gradient between "
      "two "
      "stages, and the output of an item of size 1 or its gradient")
      ->default_str("0,0");
  auto* explain = add_whole(
      *command, "--explain", 1, [arguments](int64_t waits) { arguments->explain = waits; },
      "Print why the step takes so long: its critical path, and the N longest waits of each rank");
  value_may_be_left_out(explain, "3");
  add_switch(*command, "--json", arguments->json, "Print the report as JSON");
  add_path(*command, "--trace", arguments->trace,
           "Write what every rank does when as Chrome trace events, a unit of time as a millisecond");
  add_path(*command, "--picture", arguments->picture, "Draw what every rank does when, as SVG");
  add_path(
      *command, "--page", arguments->page,
      "Write a page to look at it in a browser, as bigmac view does, with sliders that begin with this step");
  command->footer(kExamples);
  command->callback([arguments] { run(*arguments); });
}

}  // namespace bigmac
