#include <gtest/gtest.h>

#include "tests/apps/program.h"

using bigmac::contains;
using bigmac::run_bigmac;
using bigmac::Stdout;

namespace {

const std::string kEscape = "\033[";
const std::string kStep = "schedule --pp 4 --microbatches 8 --encoder --generator";

}  // namespace

TEST(Colours, AreLeftOutWhereNoTerminalReads) {
  EXPECT_FALSE(contains(run_bigmac(kStep).out, kEscape));
  EXPECT_FALSE(contains(run_bigmac("schedule --pp 0").err, kEscape));
  EXPECT_FALSE(contains(run_bigmac("simulate --pp 4 --microbatches 8 --schedule nested").err, kEscape));
}

TEST(Colours, AreShownOnATerminal) {
  EXPECT_TRUE(contains(run_bigmac(kStep, {Stdout::terminal}).out, "\033[37;44mF0.0"));
  EXPECT_TRUE(contains(run_bigmac("schedule --pp 0", {Stdout::terminal}).out,
                       "bigmac: \033[1;31merror:\033[0m --pp must be"));
}

TEST(Colours, AreLeftOutOnATerminalWhereTheEnvironmentSaysSo) {
  EXPECT_FALSE(contains(run_bigmac(kStep, {Stdout::terminal, {{"NO_COLOR", "1"}}}).out, kEscape));
  EXPECT_FALSE(contains(run_bigmac(kStep, {Stdout::terminal, {{"TERM", "dumb"}}}).out, kEscape));
  EXPECT_FALSE(contains(run_bigmac("schedule --pp 0", {Stdout::terminal, {{"NO_COLOR", "1"}}}).out, kEscape));
}

TEST(BrokenPipe, EndsTheProgramQuietlyWithSuccess) {
  for (const auto& arguments :
       {kStep, std::string("simulate --pp 4 --microbatches 8"), std::string("--help")}) {
    auto outcome = run_bigmac(arguments, {Stdout::pipe_without_reader});
    EXPECT_EQ(outcome.exit_code, 0);
    EXPECT_EQ(outcome.err, "");
  }
}

TEST(FullDisk, IsAFailure) {
  auto outcome = run_bigmac(kStep, {Stdout::full_disk});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(outcome.err, "bigmac: error: cannot write to standard output: No space left on device\n");
}

TEST(FullDisk, IsAFailureThatNamesTheFile) {
  auto outcome = run_bigmac(kStep + " --output /dev/full");
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(outcome.err, "bigmac: error: cannot write '/dev/full': No space left on device\n");
  outcome = run_bigmac("simulate --pp 4 --microbatches 8 --trace /dev/full");
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(outcome.out, "");
  EXPECT_EQ(outcome.err, "bigmac: error: [trace] cannot write '/dev/full': No space left on device\n");
}

TEST(UnwritablePath, IsAFailureThatNamesIt) {
  auto outcome = run_bigmac(kStep + " --output /nonexistent/schedule.csv");
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(outcome.err,
            "bigmac: error: cannot write '/nonexistent/schedule.csv': No such file or directory\n");
  outcome = run_bigmac("simulate --pp 4 --microbatches 8 --trace /nonexistent/step.json");
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(outcome.err,
            "bigmac: error: [trace] cannot write '/nonexistent/step.json': No such file or directory\n");
}
