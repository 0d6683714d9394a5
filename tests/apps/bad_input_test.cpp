#include <gtest/gtest.h>

#include <sstream>

#include "tests/apps/program.h"

using bigmac::contains;
using bigmac::run_bigmac;

namespace {

// Expects exit code 2, nothing on stdout and exactly this one line on stderr.
void expect_error(const std::vector<std::string>& arguments, const std::string& message) {
  auto outcome = run_bigmac(arguments);
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_EQ(outcome.out, "");
  EXPECT_EQ(outcome.err, "bigmac: error: " + message + "\n");
}

void expect_error(const std::string& arguments, const std::string& message) {
  std::vector<std::string> list;
  std::istringstream words(arguments);
  for (std::string word; words >> word;) list.push_back(word);
  expect_error(list, message);
}

}  // namespace

TEST(BadCount, IsNamedWithItsOptionAndWhatIsLegal) {
  for (const char* command : {"schedule", "simulate"})
    for (const char* option : {"--pp", "--vpp", "--microbatches", "--group", "--warmup-units"})
      for (const char* value : {"0", "-4", "268435457", "99999999999999999999", "four", "4x", "4.5", ""})
        expect_error(
            {command, option, value},
            std::string(option) + " must be a whole number from 1 to 268435456, got '" + value + "'");
}

TEST(BadCount, IsFoundWhereOnlyTheProductIsTooLarge) {
  expect_error("schedule --pp 65536 --vpp 2 --microbatches 65536",
               "[schedule] P=65536 V=2 M=65536 make more than 268435456 operators; take fewer microbatches");
  expect_error(
      "simulate --pp 268435456 --vpp 268435456 --microbatches 268435456",
      "[schedule] P=268435456 V=268435456 M=268435456 make more than 268435456 operators; take fewer "
      "microbatches");
}

TEST(IllegalCounts, OfTheInterleavedOrderAreNamedWithTheNearestLegalOnes) {
  expect_error(
      "schedule --pp 4 --vpp 2 --microbatches 7",
      "[interleaved] P=4 V=2 M=7 G=4 is not legal: P <= G <= M, and M mod G must be 0 or at least P. "
      "Nearest legal M for this G: 4 or 8; nearest legal G for this M: 7");
  expect_error(
      "simulate --pp 4 --vpp 2 --microbatches 15 --group 6",
      "[interleaved] P=4 V=2 M=15 G=6 is not legal: P <= G <= M, and M mod G must be 0 or at least P. "
      "Nearest legal M for this G: 12 or 16; nearest legal G for this M: 5 or 8");
}

TEST(IllegalCounts, OfNestingAreNamedWithTheNearestLegalOnes) {
  expect_error("schedule --pp 4 --microbatches 6 --encoder",
               "[nest] M must be a multiple of P, got P=4 V=1 M=6; nearest legal M: 4 or 8");
  expect_error(
      "simulate --pp 4 --vpp 2 --microbatches 16 --group 5 --generator 2,4",
      "[nest] P=4 V=2 M=16 G=5 is not legal: P <= G <= M, and M mod G must be 0 or at least P; nested, M and "
      "G must be multiples of P. Nearest legal M for this G: none; nearest legal G for this M: 4 or 8");
}

TEST(IllegalCounts, NameTheLeastWarmupUnits) {
  expect_error("schedule --pp 4 --vpp 2 --microbatches 16 --encoder --warmup-units 1",
               "[nest] encoder warm-up units (W) must be at least 3 for P=4 V=2 M=16 G=4, got 1");
}

TEST(IllegalCounts, AreNamedWhereTheyDoNotFitTheBase) {
  expect_error("schedule --pp 4 --vpp 2 --base 1f1b --microbatches 8",
               "[1f1b] holds one chunk a rank, got P=4 V=2 M=8; take V=1 or the base 'interleaved'");
  expect_error("schedule --pp 4 --base interleaved --microbatches 8",
               "[interleaved] needs at least 2 chunks a rank, got P=4 V=1 M=8; take V=2 or more, or the base "
               "'1f1b'");
  expect_error("schedule --pp 4 --group 4 --microbatches 8",
               "[1f1b] has no groups, got G=4 with P=4 V=1 M=8; leave the group size out or take the base "
               "'interleaved'");
}

TEST(UnknownName, GetsTheNearestKnownOne) {
  const std::string step = "schedule --pp 4 --microbatches 8 ";
  expect_error(step + "--schedule nestd",
               "--schedule: unknown schedule 'nestd' (did you mean 'nested'?); known: llm-only, nested, "
               "three-phase");
  expect_error(step + "--base interleavd",
               "--base: unknown base schedule 'interleavd' (did you mean 'interleaved'?); known: 1f1b, "
               "interleaved");
  expect_error(step + "--format cvs",
               "--format: unknown format 'cvs' (did you mean 'csv'?); known: grid, csv, json");
  expect_error(
      step + "--sends blockin",
      "--sends: unknown kind of sends 'blockin' (did you mean 'blocking'?); known: buffered, blocking");
}

TEST(UnknownOption, GetsTheNearestKnownOne) {
  const std::string message =
      "unknown option '--microbatchs' (did you mean '--microbatches'?); see bigmac schedule --help";
  expect_error("schedule --pp 4 --microbatchs 8", message);
  expect_error("schedule --pp 4 --microbatchs=8", message);
}

TEST(UnknownOption, ComesWithAllKnownOnesWhereNoneIsNear) {
  auto outcome = run_bigmac("schedule --pp 4 --microbatches 8 --zebra-crossing");
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_TRUE(contains(outcome.err, "unknown option '--zebra-crossing'; known: --help, --pp, --vpp,"));
}

TEST(UnknownOption, MayStandBeforeItsCommand) {
  expect_error("--pp 4 schedule",
               "unknown option '--pp' before the command: options stand behind it; see bigmac --help");
}

TEST(UnknownCommand, GetsTheNearestKnownOne) {
  auto outcome = run_bigmac("schedul --pp 4");
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_TRUE(contains(outcome.err, "unknown command 'schedul' (did you mean 'schedule'?); known: schedule"));
}

TEST(MissingCommand, IsNamedWithTheKnownOnes) {
  auto outcome = run_bigmac("");
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_TRUE(contains(outcome.err, "bigmac: error: a command is missing; known: schedule, simulate"));
}

TEST(MissingOption, IsNamed) {
  expect_error("schedule --pp 4", "--microbatches is required; see bigmac schedule --help");
  expect_error("simulate --microbatches 4", "--pp is required; see bigmac simulate --help");
}

TEST(StrayValue, IsNamed) {
  expect_error("schedule --pp 4 --microbatches 8 16",
               "argument '16' is not expected; see bigmac schedule --help");
  expect_error("schedule --pp 4 --microbatches 8 --encoder=0.5,1",
               "--encoder takes no value; see bigmac schedule --help");
}

TEST(MissingValue, IsNamed) {
  expect_error("schedule --microbatches 8 --pp", "--pp needs a value; see bigmac schedule --help");
}

TEST(RepeatedOption, IsNamed) {
  expect_error("schedule --pp 4 --pp 8 --microbatches 8",
               "--pp is given 2 times; give it once; see bigmac schedule --help");
}

TEST(BadTimes, AreNamedWithTheirOptionAndWhatIsLegal) {
  for (const char* option : {"--backbone", "--encoder", "--generator"})
    for (const char* value : {"1", "1,", ",2", "1,2,3", "-1,2", "1,nan", "inf,1", "1e13,1", "one,two", ""})
      expect_error({"simulate", "--pp", "4", "--microbatches", "8", option, value},
                   std::string(option) +
                       " must be two numbers from 0 to 1e+12 as FORWARD,BACKWARD, such as 0.5,1, got '" +
                       value + "'");
  for (const char* value : {"-1", "nan", "slow", "1,2"})
    expect_error({"simulate", "--pp", "4", "--microbatches", "8", "--latency", value},
                 std::string("--latency must be a number from 0 to 1e+12, got '") + value + "'");
}

TEST(BadTimes, OfABackboneThatTakesNoneAreRefused) {
  expect_error("simulate --pp 4 --microbatches 8 --backbone 0,0",
               "--backbone must have a forward or a backward that takes time, got 0,0");
}
