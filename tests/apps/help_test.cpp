#include <gtest/gtest.h>

#include <regex>
#include <sstream>

#include "tests/apps/program.h"

using bigmac::contains;
using bigmac::run_bigmac;

namespace {

const std::vector<std::string> kStepOptions{
    "--pp N",
    "--vpp N",
    "--microbatches N",
    "--encoder [[NAME=]F,B]",
    "--generator [[NAME=]F,B]",
    "--items [NAME=]N|random:MEAN,SIGMA[,EMPTY]|FILE",
    "--seed N",
    "--no-spread",
    "--base gpipe|1f1b|interleaved|zb-h1|zb-v|dualpipe-v",
    "--group N",
    "--schedule llm-only|nested|nested-fill|three-phase|optimus|megatron|disttrain",
    "--warmup-units [NAME=]N",
    "--generator-unit K",
    "--order as-is|balanced|FILE",
    "--backbone F,B|F,I,W",
    "--layout LAYOUT",
    "--layers N",
    "--embedding F,B|F,I,W",
    "--head F,B|F,I,W",
    "--latency TIME"};

void expect_options(const std::string& help, const std::vector<std::string>& options) {
  for (const auto& option : options) EXPECT_TRUE(contains(help, "\n  " + option));
}

std::string help_of(const std::string& command) {
  auto outcome = run_bigmac(command + " --help");
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.err, "");
  return outcome.out;
}

}  // namespace

TEST(Help, OfTheProgramNamesItsCommandsAndExitCodes) {
  auto help = help_of("");
  EXPECT_TRUE(contains(help, "Usage: bigmac [OPTION...] COMMAND"));
  EXPECT_TRUE(contains(help, "\n  schedule  "));
  EXPECT_TRUE(contains(help, "\n  simulate  "));
  EXPECT_TRUE(contains(help, "Exit codes: 0 done, 1 failed while running, 2 wrong input."));
}

TEST(Help, OfScheduleNamesEveryOption) {
  auto help = help_of("schedule");
  EXPECT_TRUE(contains(help, "Usage: bigmac schedule [OPTION...]"));
  expect_options(help, kStepOptions);
  expect_options(help,
                 {"--sends buffered|blocking", "--format grid|csv|json|torch|torch-old", "--output FILE"});
  EXPECT_TRUE(contains(help, "(default: grid)"));
  EXPECT_TRUE(contains(help, "Examples:\n"));
}

TEST(Help, OfSimulateNamesEveryOption) {
  auto help = help_of("simulate");
  expect_options(help, kStepOptions);
  expect_options(help, {"--explain [N]", "--json", "--trace FILE", "--picture FILE"});
  EXPECT_TRUE(contains(help, "(default: 1,2)"));
  EXPECT_TRUE(contains(help, "Examples:\n"));
}

TEST(Help, SaysWhichOptionsAreRequiredAndWhatTheOthersAre) {
  auto help = help_of("schedule");
  EXPECT_TRUE(contains(help, "P, pipeline ranks (required)"));
  EXPECT_TRUE(contains(help, "V, chunks (virtual pipeline stages) on each rank (default: 1)"));
}

TEST(Help, FitsIntoAHundredColumns) {
  for (const char* command : {"", "schedule", "simulate"}) {
    std::istringstream lines(help_of(command));
    for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 100u) << line;
  }
}

TEST(Version, IsPrinted) {
  auto outcome = run_bigmac("--version");
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_TRUE(std::regex_match(outcome.out, std::regex("bigmac [0-9]+\\.[0-9]+\\.[0-9]+\n")));
}
