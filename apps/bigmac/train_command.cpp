#include "apps/bigmac/train_command.h"

#include <fmt/format.h>

#include <filesystem>
#include <memory>

#include "apps/bigmac/report_text.h"
#include "apps/bigmac/text_columns.h"
#include "bigmac/command/arguments.h"
#include "bigmac/command/console.h"
#include "bigmac/command/progress.h"
#include "bigmac/demo/batches.h"
#include "bigmac/demo/model.h"
#include "bigmac/demo/sample.h"
#include "bigmac/formats/table_csv.h"
#include "bigmac/runtime/environment.h"
#include "bigmac/simulate/simulate.h"
#include "bigmac/timeline/mean_costs.h"
#include "bigmac/timeline/trace.h"
#include "bigmac/train/arguments.h"
#include "bigmac/train/metrics.h"
#include "bigmac/train/session.h"

namespace bigmac {
namespace {

constexpr char kAbout[] =
    "Trains encoders, an LLM and a generator together on pictures and their names, through the pipeline that "
    "the configuration declares. Options replace what the configuration says. Started by torchrun, srun or "
    "mpirun each process is one rank; otherwise the ranks are threads of this process or processes that it "
    "starts.";

constexpr char kExamples[] =
    "Examples:\n"
    "  bigmac train configs/emoji.yaml\n"
    "  bigmac train configs/emoji.yaml --ranks-as processes --steps 20 --output /tmp/run\n"
    "  bigmac train configs/emoji.yaml --pp 2 --dp 2 --microbatches 8 --shard vision=states --steps 20\n"
    "  bigmac train configs/emoji.yaml --checkpoints /tmp/kept --checkpoint-every 50 --resume\n"
    "  bigmac train configs/spoken.yaml\n"
    "\n"
    "Writes into the output folder: weights.safetensors (parameters and configuration), schedule.csv\n"
    "(the table of the last step), trace.json (the last step as it was measured, to open in\n"
    "https://ui.perfetto.dev), profile/ (what each rank did in the last steps, written while it did it, for\n"
    "bigmac view and report, also after a crash) and metrics.jsonl (a line a step). Of several replicas\n"
    "table and trace are the first one's.";

struct Arguments {
  std::string config;
  train::TrainArguments options;
  std::optional<std::string> output, trace, metrics;
};

struct Outputs {
  std::string weights, schedule, trace, metrics, profile;
};

Outputs outputs_of(const Arguments& arguments) {
  std::filesystem::path folder =
      arguments.output.value_or("out/" + std::filesystem::path(arguments.config).stem().string());
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) throw Failure(concat("cannot make the folder '", folder.string(), "': ", error.message()));
  return {folder / "weights.safetensors", folder / "schedule.csv",
          arguments.trace.value_or(folder / "trace.json"),
          arguments.metrics.value_or(folder / "metrics.jsonl"), folder / "profile"};
}

demo::Config config_of(const Arguments& arguments) {
  auto config = demo::read_config(arguments.config);
  arguments.options.apply(config.options);
  train::fit_replicas(config.options);
  config.complete();
  return config;
}

// The last step, as it was and as a simulation with its operators' mean times would have it.
std::string step_table(const Schedule& schedule, const Timeline& measured, int64_t replicas) {
  const Step& step = schedule.step;
  auto costs = mean_costs(schedule, with_transfers(measured));
  auto simulated = simulate(schedule, costs);
  auto plan = report(schedule, costs, simulated);
  auto times = rank_times(measured);
  std::vector<Column> columns;
  auto add = [&](const std::string& title, auto cell_of) {
    columns.push_back({title, {}});
    for (size_t rank = 0; rank < times.size(); ++rank) columns.back().cells.push_back(cell_of(rank));
  };
  auto add_time = [&](const std::string& title, const std::vector<RankTime>& list, double RankTime::*part) {
    add(title, [&](size_t rank) { return fmt::format("{:.1f}", list[rank].*part * 1e3); });
  };
  add("rank", [](size_t rank) { return std::to_string(rank); });
  add_time("simulated busy", plan.times, &RankTime::busy);
  add_time("idle", plan.times, &RankTime::idle);
  add_time("measured busy", times, &RankTime::busy);
  add_time("transfer", times, &RankTime::transfer);
  add_time("wait", times, &RankTime::wait);
  add_time("idle", times, &RankTime::idle);
  add("LLM chunks", [&](size_t rank) { return std::to_string(plan.peaks[rank].in_flight); });
  for (size_t n = 0; n < plan.modules.size(); ++n)
    add(plan.modules[n] + " units", [&](size_t rank) { return units_text(plan.peaks[rank].units[n]); });
  auto text = fmt::format(
      "\n{} schedule, P={} V={} M={}, base {}{}: one step in ms, simulated with the mean time "
      "that each operator took and moved bytes, and as it was measured\n\n",
      name(step.arrangement), step.ranks, step.chunks, step.microbatches, name(step.base),
      replicas > 1 ? fmt::format(", first of {} replicas", replicas) : "");
  text += side_by_side(columns);
  text += fmt::format("step: simulated {:.1f} ms, measured {:.1f} ms\nsimulated idle/total {:.1f} %",
                      plan.makespan * 1e3, measured.length() * 1e3, plan.idle_over_total * 100);
  if (plan.ideal)
    text += fmt::format(", ratio to the ideal of unlimited memory {:.3f}", *plan.ratio_to_ideal());
  return text + "\nLLM chunks and units: the most that a rank holds at once\n";
}

// "text 5.6457 -> 0.6042, drawing 1.3801 -> 0.3042"
std::string losses_text(const train::StepFigures& first, const train::StepFigures& last) {
  std::string text;
  for (size_t i = 0; i < last.losses.size(); ++i)
    text += fmt::format("{}{} {:.4f} -> {:.4f}", i > 0 ? ", " : "", last.losses[i].first,
                        first.losses[i].second, last.losses[i].second);
  return text;
}

// What is told and written of a run. Only end() is called on other ranks than the first.
class Told {
 public:
  Told(const demo::Config& config, const Outputs& outputs) : config_(config), outputs_(outputs) {}

  train::Reports reports() {
    train::Reports reports;
    reports.begin = [this](int64_t first, int64_t steps) { begin(first, steps); };
    reports.step = [this](const train::StepFigures& figures) { step(figures); };
    reports.end = [this](train::Trainer& trainer) { end(trainer); };
    return reports;
  }

 private:
  void begin(int64_t first, int64_t steps) {
    if (first > 0) print_note(fmt::format("goes on behind step {}", first));
    metrics_ = std::make_unique<train::MetricsFile>(outputs_.metrics, first);
    progress_ = std::make_unique<Progress>("training", steps - first);
    began_ = now();
  }

  void step(const train::StepFigures& figures) {
    if (taken_++ == 0) first_ = figures;
    last_ = figures;
    seconds_ = now() - began_;
    metrics_->add(figures);
    progress_->done(taken_, fmt::format("loss {:.3f}  {:.1f} items/s", figures.loss, items_per_second()));
  }

  void end(train::Trainer& trainer) {
    auto parameters = trainer.gather_parameters();
    bool stepped = !trainer.schedule().operators.empty();
    Recording recording;
    if (stepped) recording = trainer.recording();
    if (trainer.rank() != 0) return;
    progress_.reset();
    if (stepped) tell_step(recording);
    demo::save_model(outputs_.weights, config_, parameters);
    auto text = fmt::format("\nweights   {}\nmetrics   {}\n", outputs_.weights, outputs_.metrics);
    if (stepped)
      text += fmt::format("schedule  {}\ntrace     {} (open it in https://ui.perfetto.dev)\n",
                          outputs_.schedule, outputs_.trace);
    write_stdout(text);
  }

  void tell_step(const Recording& recording) {
    write_trace(recording, outputs_.trace);
    write_file(outputs_.schedule, to_csv(recording.schedule));
    write_stdout(step_table(recording.schedule, recording.timeline, config_.options.dp));
    write_stdout(fmt::format(
        "\n{} steps of {} items in {:.1f} s, {:.1f} items/s\nloss {:.4f} -> {:.4f} ({})\n", taken_,
        last_.samples, seconds_, items_per_second(), first_.loss, last_.loss, losses_text(first_, last_)));
  }

  double items_per_second() const { return double(last_.samples * taken_) / seconds_; }

  const demo::Config& config_;
  const Outputs& outputs_;
  std::unique_ptr<train::MetricsFile> metrics_;
  std::unique_ptr<Progress> progress_;
  train::StepFigures first_, last_;
  int64_t taken_ = 0;
  double began_ = 0, seconds_ = 0;
};

void run(const Arguments& arguments) {
  auto config = config_of(arguments);
  auto outputs = outputs_of(arguments);
  if (config.options.profile.folder.empty()) config.options.profile.folder = outputs.profile;
  auto dataset = data::load_dataset(config.data);
  Told told(config, outputs);
  try {
    train::train(demo::make_system(config), demo::make_batches(config, dataset), config.options,
                 told.reports());
  } catch (const RankFailure& failure) {
    auto environment = read_environment();
    if (!environment || environment->size < 2) throw;
    throw Failure(concat("rank ", environment->rank, " stops: ", failure.what()));
  }
}

}  // namespace

void add_train_command(CLI::App& program) {
  auto* command = program.add_subcommand("train", kAbout);
  auto arguments = std::make_shared<Arguments>();
  command->add_option("CONFIG", arguments->config, "The configuration, YAML")->required();
  arguments->options.add_to(*command);
  add_path(*command, "--output", arguments->output, "Where the results go")
      ->type_name("FOLDER")
      ->default_str("out/ and the configuration's name");
  add_path(*command, "--trace", arguments->trace, "Where the trace of the last step goes")
      ->default_str("trace.json in the output folder");
  add_path(*command, "--metrics", arguments->metrics, "Where a JSON line a step goes")
      ->default_str("metrics.jsonl in the output folder");
  command->footer(kExamples);
  command->callback([arguments] { run(*arguments); });
}

}  // namespace bigmac
