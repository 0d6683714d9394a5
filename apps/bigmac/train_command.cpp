#include "apps/bigmac/train_command.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>

#include "apps/bigmac/arguments.h"
#include "apps/bigmac/console.h"
#include "apps/bigmac/progress.h"
#include "apps/bigmac/report_text.h"
#include "apps/bigmac/text_columns.h"
#include "bigmac/formats/table_csv.h"
#include "bigmac/runtime/gloo_transport.h"
#include "bigmac/runtime/launch.h"
#include "bigmac/runtime/threads_transport.h"
#include "bigmac/simulate/simulate.h"
#include "bigmac/timeline/mean_costs.h"
#include "bigmac/timeline/trace.h"
#include "bigmac/train/sample.h"
#include "bigmac/train/trainer.h"

namespace bigmac {
namespace {

constexpr char kAbout[] =
    "Trains an encoder, an LLM and a generator together on pictures and their names, through the pipeline "
    "that the configuration declares. Options replace what the configuration says. Started by torchrun, "
    "srun or mpirun each process is one rank; otherwise the ranks are threads of this process or processes "
    "that it starts.";

constexpr char kExamples[] =
    "Examples:\n"
    "  bigmac train configs/emoji.yaml\n"
    "  bigmac train configs/emoji.yaml --ranks-as processes --steps 20 --output /tmp/run\n"
    "  bigmac train configs/emoji.yaml --pp 1 --vpp 1 --steps 20\n"
    "\n"
    "Writes into the output folder: weights.safetensors (parameters and configuration), schedule.csv (the "
    "table of\n"
    "the last step), trace.json (the last step as it was measured, to open in https://ui.perfetto.dev) and\n"
    "metrics.jsonl (a line a step).";

struct TrainArguments {
  std::string config;
  std::optional<int64_t> pp, vpp, microbatches, generator_unit, steps;
  std::optional<uint64_t> seed;
  std::optional<Base> base;
  std::optional<train::Order> order;
  std::optional<Arrangement> schedule;
  std::optional<train::RanksAs> ranks_as;
  std::optional<std::string> output, trace, metrics;
};

struct Outputs {
  std::string weights, schedule, trace, metrics;
};

Outputs outputs_of(const TrainArguments& arguments) {
  std::filesystem::path folder =
      arguments.output.value_or("out/" + std::filesystem::path(arguments.config).stem().string());
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) throw Failure(concat("cannot make the folder '", folder.string(), "': ", error.message()));
  return {folder / "weights.safetensors", folder / "schedule.csv",
          arguments.trace.value_or(folder / "trace.json"),
          arguments.metrics.value_or(folder / "metrics.jsonl")};
}

train::Config config_of(const TrainArguments& arguments) {
  auto config = train::read_config(arguments.config);
  auto replace = [](auto& field, const auto& value) {
    if (value) field = *value;
  };
  replace(config.pp, arguments.pp);
  replace(config.vpp, arguments.vpp);
  replace(config.batch.microbatches, arguments.microbatches);
  replace(config.steps, arguments.steps);
  replace(config.seed, arguments.seed);
  replace(config.schedule, arguments.schedule);
  replace(config.base, arguments.base);
  replace(config.generator_unit, arguments.generator_unit);
  replace(config.order, arguments.order);
  replace(config.ranks_as, arguments.ranks_as);
  config.complete();
  return config;
}

std::string metrics_line(const train::StepFigures& figures) {
  nlohmann::ordered_json json{{"step", figures.step},
                              {"loss", figures.loss()},
                              {"backbone_loss", figures.backbone_loss},
                              {"generator_loss", figures.generator_loss},
                              {"gradient_norm", figures.gradient_norm},
                              {"learning_rate", figures.learning_rate},
                              {"seconds", figures.seconds},
                              {"items_per_second", double(figures.samples) / figures.seconds}};
  return json.dump() + "\n";
}

// The last step, as it was and as a simulation with its operators' mean times would have it.
std::string step_table(const Schedule& schedule, const Timeline& measured) {
  const Step& step = schedule.step;
  auto costs = mean_costs(schedule, measured);
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
      "\n{} schedule, P={} V={} M={}, base {}: one step in ms, simulated with the mean time of "
      "each operator and as it was measured\n\n",
      name(step.arrangement), step.ranks, step.chunks, step.microbatches, name(step.base));
  text += side_by_side(columns);
  text += fmt::format("step: simulated {:.1f} ms, measured {:.1f} ms\nsimulated idle/total {:.1f} %",
                      plan.makespan * 1e3, measured.length() * 1e3, plan.idle_over_total * 100);
  if (plan.ideal)
    text += fmt::format(", ratio to the ideal of unlimited memory {:.3f}", *plan.ratio_to_ideal());
  return text + "\nLLM chunks and units: the most that a rank holds at once\n";
}

class Run {
 public:
  Run(const train::Config& config, const Outputs& outputs) : config_(config), outputs_(outputs) {}

  void rank(const data::Dataset& dataset, Transport& transport) {
    at::set_num_threads(int(config_.threads_per_rank));
    train::Trainer trainer(config_, dataset, transport);
    bool first = transport.rank() == 0;
    std::ofstream metrics;
    std::unique_ptr<Progress> progress;
    if (first) {
      metrics.open(outputs_.metrics);
      if (!metrics) throw Failure(concat("cannot write '", outputs_.metrics, "'"));
      progress = std::make_unique<Progress>("training", config_.steps);
    }
    train::StepFigures start, figures;
    double began = now();
    for (int64_t step = 0; step < config_.steps; ++step) {
      figures = trainer.train_step(step);
      if (step == 0) start = figures;
      if (!first) continue;
      metrics << metrics_line(figures) << std::flush;
      progress->done(step + 1, fmt::format("loss {:.3f}  {:.1f} items/s", figures.loss(),
                                           double(figures.samples * (step + 1)) / (now() - began)));
    }
    double seconds = now() - began;
    auto parameters = trainer.gather_parameters();
    if (config_.steps > 0) {
      auto timeline = trainer.timeline();
      if (first) {
        progress.reset();
        write_trace(trainer.schedule(), timeline, outputs_.trace);
        write_file(outputs_.schedule, to_csv(trainer.schedule()));
        write_stdout(step_table(trainer.schedule(), timeline));
        write_stdout(fmt::format(
            "\n{} steps of {} items in {:.1f} s, {:.1f} items/s\nloss {:.4f} -> {:.4f} (captions {:.4f} -> "
            "{:.4f}, pictures "
            "{:.4f} -> {:.4f})\n",
            config_.steps, figures.samples, seconds, double(figures.samples * config_.steps) / seconds,
            start.loss(), figures.loss(), start.backbone_loss, figures.backbone_loss, start.generator_loss,
            figures.generator_loss));
      }
    }
    if (!first) return;
    train::save_model(outputs_.weights, config_, parameters);
    auto text = fmt::format("\nweights   {}\nmetrics   {}\n", outputs_.weights, outputs_.metrics);
    if (config_.steps > 0)
      text += fmt::format("schedule  {}\ntrace     {} (open it in https://ui.perfetto.dev)\n",
                          outputs_.schedule, outputs_.trace);
    write_stdout(text);
  }

 private:
  const train::Config& config_;
  const Outputs& outputs_;
};

void run_as_rank(const train::Config& config, const Outputs& outputs, const Environment& environment) {
  if (environment.size != config.pp)
    throw InvalidInput(concat("the configuration has ", config.pp, " pipeline ranks, ", environment.launcher,
                              " started ", environment.size, "; pass --pp ", environment.size));
  auto transport = connect_gloo(environment);
  try {
    Run(config, outputs).rank(data::load_dataset(config.data), *transport);
  } catch (const RankFailure& failure) {
    throw;
  } catch (const std::exception& error) {
    transport->fail(concat("rank ", environment.rank, ": ", error.what()));
    throw;
  }
}

void run(const TrainArguments& arguments) {
  auto config = config_of(arguments);
  auto outputs = outputs_of(arguments);
  auto environment = read_environment();
  if (environment && environment->size > 1) {
    try {
      run_as_rank(config, outputs, *environment);
    } catch (const RankFailure& failure) {
      throw Failure(concat("rank ", environment->rank, " stops: ", failure.what()));
    }
    return;
  }
  if (config.ranks_as == train::RanksAs::processes && config.pp > 1) {
    data::load_dataset(config.data);  // what is wrong with it is told once, here
    launch_processes(own_command(), {.ranks = int(config.pp)});
    return;
  }
  auto dataset = data::load_dataset(config.data);
  Run training(config, outputs);
  run_threads(int(config.pp), [&](Transport& transport) { training.rank(dataset, transport); });
}

}  // namespace

void add_train_command(CLI::App& program) {
  auto* command = program.add_subcommand("train", kAbout);
  auto arguments = std::make_shared<TrainArguments>();
  command->add_option("CONFIG", arguments->config, "The configuration, YAML")->required();
  auto add_number = [&](const std::string& option, int64_t least, auto& value, const std::string& help) {
    return add_whole(
        *command, option, least, [&value](int64_t number) { value = number; }, help);
  };
  add_number("--pp", 1, arguments->pp, "P, pipeline ranks");
  add_number("--vpp", 1, arguments->vpp, "V, chunks (virtual pipeline stages) on each rank");
  add_number("--microbatches", 1, arguments->microbatches, "M, microbatches of a step");
  add_number("--steps", 0, arguments->steps, "Steps to train");
  add_number("--seed", 0, arguments->seed, "Seed of parameters, order of the data and noise");
  add_choice(
      *command, "--base", "gpipe|1f1b|interleaved|zb-h1|zb-v|dualpipe-v",
      [arguments](const std::string& text) { arguments->base = made_base_from_name(text); },
      "Order of the LLM's own operators");
  add_choice(
      *command, "--schedule", "nested|nested-fill|three-phase|optimus|megatron",
      [arguments](const std::string& text) { arguments->schedule = arrangement_from_name(text); },
      "Where encoder and generator work goes: unit by unit into the LLM's order; item by item into its "
      "bubbles too; all encoder forwards before and all backwards behind it; into its bubbles, else before "
      "and behind; into the first and the last stage");
  add_number("--generator-unit", 1, arguments->generator_unit,
             "K, microbatches in a unit of the generator, from 1 to P")
      ->type_name("K");
  add_choice(
      *command, "--order", "as-is|balanced",
      [arguments](const std::string& text) { arguments->order = train::order_from_name(text); },
      "Order in which a step runs its microbatches: as they come, or so that units cost about their mean");
  add_choice(
      *command, "--ranks-as", "threads|processes",
      [arguments](const std::string& text) { arguments->ranks_as = train::ranks_as_from_name(text); },
      "What the ranks are when this program starts them");
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
