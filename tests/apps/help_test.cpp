#include <gtest/gtest.h>

#include <regex>
#include <sstream>

#include "tests/apps/program.h"

using bigmac::contains;
using bigmac::run_bigmac;

namespace {

const std::vector<std::string> kTableOptions{"--pp N",           "--vpp N",
                                             "--microbatches N", "--base 1f1b|interleaved",
                                             "--group N",        "--schedule nested|llm-only|three-phase",
                                             "--warmup-units N"};

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
  expect_options(help, kTableOptions);
  expect_options(help, {"--encoder", "--generator", "--sends buffered|blocking", "--format grid|csv|json",
                        "--output FILE"});
  EXPECT_TRUE(contains(help, "(default: grid)"));
  EXPECT_TRUE(contains(help, "Examples:\n"));
}

TEST(Help, OfSimulateNamesEveryOption) {
  auto help = help_of("simulate");
  expect_options(help, kTableOptions);
  expect_options(help, {"--backbone F,B", "--encoder F,B", "--generator F,B", "--latency TIME", "--json",
                        "--trace FILE"});
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
