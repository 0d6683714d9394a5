#include "bigmac/train/program.h"

#include <fmt/format.h>

#include <csignal>
#include <sstream>

#include "bigmac/command/arguments.h"
#include "bigmac/command/console.h"
#include "bigmac/command/help.h"
#include "bigmac/command/progress.h"
#include "bigmac/train/arguments.h"
#include "bigmac/train/metrics.h"
#include "bigmac/train/options_file.h"

namespace bigmac::train {
namespace {

constexpr int kFailed = 1;
constexpr int kWrongInput = 2;

constexpr char kFooter[] =
    "Examples:\n"
    "  PROGRAM --steps 100\n"
    "  PROGRAM --pp 4 --vpp 2 --microbatches 16 --ranks-as processes\n"
    "  torchrun --no-python --nproc-per-node 8 PROGRAM --pp 4 --dp 2 --microbatches 16\n"
    "\n"
    "Exit codes: 0 done, 1 failed while running, 2 wrong input.";

std::string losses_text(const StepFigures& figures) {
  std::string text;
  for (const auto& [name, loss] : figures.losses) text += fmt::format("  {} {:.4f}", name, loss);
  return text;
}

class Told {
 public:
  Told(bool verbose, std::optional<std::string> metrics, Reports more)
      : verbose_(verbose), path_(std::move(metrics)), more_(std::move(more)) {}

  Reports reports() {
    Reports reports;
    reports.prepare = more_.prepare;
    reports.begin = [this](int64_t first, int64_t steps) {
      if (first > 0) print_note(fmt::format("goes on behind step {}", first));
      first_ = first;
      if (path_) metrics_ = std::make_unique<MetricsFile>(*path_, first);
      if (first >= steps)
        print_note(fmt::format("{} steps are behind it already: nothing is left to train", steps));
      progress_ = std::make_unique<Progress>("training", steps - first);
      if (more_.begin) more_.begin(first, steps);
    };
    reports.step = [this](const StepFigures& figures) { step(figures); };
    reports.end = [this](Trainer& trainer) {
      if (trainer.rank() == 0) end();
      if (more_.end) more_.end(trainer);
    };
    return reports;
  }

 private:
  void end() {
    progress_.reset();
    if (taken_ > 0) write_stdout(fmt::format("{} steps  loss {:.4f} -> {:.4f}\n", taken_, start_, last_));
  }
  void step(const StepFigures& figures) {
    if (taken_++ == 0) start_ = figures.loss;
    last_ = figures.loss;
    if (verbose_)
      write_stdout(fmt::format("step {}  loss {:.4f}{}  gradient norm {:.3f}  {:.3f} s\n", figures.step,
                               figures.loss, losses_text(figures), figures.gradient_norm, figures.seconds));
    progress_->done(figures.step + 1 - first_, fmt::format("loss {:.4f}", figures.loss));
    if (metrics_) metrics_->add(figures);
    if (more_.step) more_.step(figures);
  }

  bool verbose_;
  std::optional<std::string> path_;
  Reports more_;
  std::unique_ptr<MetricsFile> metrics_;
  int64_t first_ = 0, taken_ = 0;
  double start_ = 0, last_ = 0;
  std::unique_ptr<Progress> progress_;
};

int run(const System& system, const Batches& batches, int argc, char** argv, const TrainOptions& defaults,
        const Reports& more) {
  CLI::App program("Trains a system of encoders, an LLM and generators, on one device or in a pipeline.",
                   argc > 0 ? argv[0] : "program");
  program.formatter(std::make_shared<HelpFormatter>());
  program.set_help_flag("-h,--help", "Print this help and exit");
  std::optional<std::string> config, metrics;
  bool verbose = false;
  program.add_option("--config", config, "Options as YAML")->type_name("FILE");
  add_path(program, "--metrics", metrics, "Where a JSON line a step goes");
  add_switch(program, "--verbose", verbose, "Print a line a step");
  TrainArguments arguments;
  arguments.add_to(program);
  std::string footer = kFooter;
  for (size_t at; (at = footer.find("PROGRAM")) != std::string::npos;)
    footer.replace(at, 7, program.get_name());
  program.footer(footer);
  try {
    program.parse(argc, argv);
  } catch (const CLI::Success& help) {
    std::ostringstream text;
    program.exit(help, text, text);
    write_stdout(text.str());
    return 0;
  } catch (const CLI::ParseError& error) {
    throw InvalidInput(bigmac::describe(error, program));
  }
  auto options = config ? read_options(*config, defaults) : defaults;
  arguments.apply(options);
  bool speaks = !is_silent_rank();
  Told told(verbose, speaks ? metrics : std::nullopt, more);
  train(system, batches, options, told.reports());
  return 0;
}

}  // namespace

int run_program(const System& system, const Batches& batches, int argc, char** argv,
                const TrainOptions& defaults, const Reports& more) {
  std::signal(SIGPIPE, SIG_IGN);
  try {
    return run(system, batches, argc, argv, defaults, more);
  } catch (const InvalidInput& error) {
    print_error(error.what());
    return kWrongInput;
  } catch (const std::exception& error) {
    print_error(error.what());
  }
  return kFailed;
}

}  // namespace bigmac::train
