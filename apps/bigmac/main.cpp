#include <CLI/CLI.hpp>
#include <csignal>
#include <new>
#include <sstream>

#include "apps/bigmac/check_command.h"
#include "apps/bigmac/compare_command.h"
#include "apps/bigmac/draw_command.h"
#include "apps/bigmac/estimate_command.h"
#include "apps/bigmac/plan_command.h"
#include "apps/bigmac/replay_command.h"
#include "apps/bigmac/report_command.h"
#include "apps/bigmac/schedule_command.h"
#include "apps/bigmac/simulate_command.h"
#include "apps/bigmac/view_command.h"
#include "bigmac/command/console.h"
#include "bigmac/command/help.h"
#ifdef BIGMAC_RUNTIME
#include "apps/bigmac/run_command.h"
#include "apps/bigmac/sample_command.h"
#include "apps/bigmac/train_command.h"
#endif
#include "bigmac/common/error.h"

namespace {

constexpr int kFailed = 1;
constexpr int kWrongInput = 2;

constexpr char kAbout[] =
    "bigmac plans, simulates and runs pipeline-parallel training of multimodal models. It keeps the LLM's "
    "own schedule and nests encoder and generator work into it, where this stalls nothing and memory stays "
    "constant.";

constexpr char kExamples[] =
    "Examples:\n"
    "  bigmac schedule --pp 4 --vpp 2 --microbatches 8 --encoder\n"
    "  bigmac simulate --pp 8 --vpp 2 --microbatches 64 --encoder 0.5,1 --generator 2,4\n"
    "  bigmac simulate --pp 8 --vpp 2 --microbatches 64 --encoder 0.5,1 --items random:8,1 --explain\n"
    "  bigmac check schedule.csv\n"
    "  bigmac estimate workloads/models/qwen3-30b-a3b.json --tokens 8K\n"
    "  bigmac plan workloads/understanding.yaml --samples-per-gpu 8\n"
    "  bigmac compare workloads/small.yaml\n"
    "  bigmac view runs/pp8 -o step.html\n"
    "  bigmac draw schedule.csv --png schedule.png\n"
    "  bigmac train configs/emoji.yaml\n"
    "  bigmac schedule --help\n"
    "\n"
    "Exit codes: 0 done, 1 failed while running, 2 wrong input.";

void run(CLI::App& program, int argc, char** argv) {
  try {
    program.parse(argc, argv);
  } catch (const CLI::Success& help_or_version) {
    std::ostringstream text;
    program.exit(help_or_version, text, text);
    bigmac::write_stdout(text.str());
  } catch (const CLI::ParseError& error) {
    throw bigmac::InvalidInput(bigmac::describe(error, program));
  }
}

}  // namespace

int main(int argc, char** argv) {
  // A reader that goes away shows as an error of write(), not as a signal.
  std::signal(SIGPIPE, SIG_IGN);
  CLI::App program(kAbout, "bigmac");
  program.formatter(std::make_shared<bigmac::HelpFormatter>());
  program.set_help_flag("-h,--help", "Print this help and exit");
  program.set_version_flag("--version", "bigmac " BIGMAC_VERSION, "Print the version and exit");
  program.require_subcommand(1);
  program.footer(kExamples);
  bigmac::add_schedule_command(program);
  bigmac::add_simulate_command(program);
  bigmac::add_check_command(program);
  bigmac::add_replay_command(program);
  bigmac::add_report_command(program);
  bigmac::add_estimate_command(program);
  bigmac::add_plan_command(program);
  bigmac::add_compare_command(program);
  bigmac::add_view_command(program);
  bigmac::add_draw_command(program);
#ifdef BIGMAC_RUNTIME
  bigmac::add_run_command(program);
  bigmac::add_train_command(program);
  bigmac::add_sample_command(program);
#endif
  for (auto* command : program.get_subcommands({})) command->group("Commands");
  try {
    run(program, argc, argv);
    return 0;
  } catch (const bigmac::InvalidInput& error) {
    bigmac::print_error(error.what());
    return kWrongInput;
  } catch (const std::bad_alloc&) {
    bigmac::print_error("not enough memory");
  } catch (const std::exception& error) {
    bigmac::print_error(error.what());
  }
  return kFailed;
}
