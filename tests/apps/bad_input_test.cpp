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
    for (const char* option :
         {"--pp", "--vpp", "--microbatches", "--group", "--warmup-units", "--generator-unit", "--layers"})
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
  expect_error("schedule --pp 4 --vpp 2 --microbatches 7 --group 3",
               "[interleaved] P=4 V=2 M=7 G=3 is not legal: P <= G <= M; nearest legal G: 4");
  expect_error("simulate --pp 4 --vpp 2 --microbatches 15 --group 16",
               "[interleaved] P=4 V=2 M=15 G=16 is not legal: P <= G <= M; nearest legal G: 15");
}

TEST(IllegalCounts, NameTheLeastWarmupUnits) {
  expect_error("schedule --pp 4 --vpp 2 --microbatches 16 --encoder image=0.5,1 --warmup-units 1",
               "[nest] warm-up units (W) of 'image' must be at least 3 for P=4 V=2 M=16 G=4 with the base "
               "'interleaved', got 1");
}

TEST(IllegalCounts, OfAGeneratorsUnitAreNamed) {
  expect_error(
      "schedule --pp 2 --microbatches 8 --generator --generator-unit 3",
      "[schedule] the generator's unit (k) must be from 1 to P microbatches, got 3 with P=2 V=1 M=8");
}

TEST(IllegalCounts, OfRanksForDisttrainAreNamed) {
  expect_error("simulate --pp 1 --microbatches 8 --encoder 1,2 --schedule disttrain",
               "[disttrain] needs a rank for each of 2 kinds of module, got P=1 V=1 M=8; take P=2 or more");
}

TEST(IllegalCounts, AreNamedWhereTheyDoNotFitTheBase) {
  expect_error("schedule --pp 4 --vpp 2 --base 1f1b --microbatches 8",
               "[1f1b] holds one chunk a rank, got P=4 V=2 M=8; take V=1 or the base 'interleaved'");
  expect_error("schedule --pp 4 --base interleaved --microbatches 8",
               "[interleaved] needs at least 2 chunks a rank, got P=4 V=1 M=8; take V=2 or more, or the "
               "base '1f1b'");
  expect_error("schedule --pp 4 --group 4 --microbatches 8",
               "[1f1b] has no groups, got G=4 with P=4 V=1 M=8; leave the group size out or take the base "
               "'interleaved'");
}

TEST(UnknownName, GetsTheNearestKnownOne) {
  const std::string step = "schedule --pp 4 --microbatches 8 ";
  expect_error(step + "--schedule nestd",
               "--schedule: unknown schedule 'nestd' (did you mean 'nested'?); known: llm-only, nested, "
               "nested-fill, three-phase, optimus, megatron, disttrain");
  expect_error(
      step + "--base interleavd",
      "--base: unknown base schedule 'interleavd' (did you mean 'interleaved'?); known: gpipe, 1f1b, "
      "interleaved, zb-h1, zb-v, dualpipe-v");
  expect_error(
      step + "--base custom",
      "--base: unknown base schedule 'custom'; known: gpipe, 1f1b, interleaved, zb-h1, zb-v, dualpipe-v");
  expect_error(
      step + "--order balancd",
      "--order must be as-is, balanced or a file: cannot read 'balancd': No such file or directory (did "
      "you mean 'balanced'?)");
  expect_error(step + "--format cvs",
               "--format: unknown format 'cvs' (did you mean 'csv'?); known: grid, csv, json, torch, "
               "torch-old");
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
  expect_error("schedule --pp 4 --microbatches 8 --encoder 0.5,1 16",
               "argument '16' is not expected; see bigmac schedule --help");
  expect_error("schedule --pp 4 --microbatches 8 --no-spread=yes",
               "--no-spread takes no value; see bigmac schedule --help");
}

TEST(MissingValue, IsNamed) {
  expect_error("schedule --microbatches 8 --pp", "--pp needs a value; see bigmac schedule --help");
}

TEST(RepeatedOption, IsNamed) {
  expect_error("schedule --pp 4 --pp 8 --microbatches 8",
               "--pp is given 2 times; give it once; see bigmac schedule --help");
  expect_error("schedule --encoder a=1,2 --encoder b=1,2 --pp 4 --pp 8 --microbatches 8",
               "--pp is given 2 times; give it once; see bigmac schedule --help");
  expect_error("simulate --pp 4 --microbatches 8 --explain 1 --explain 2",
               "--explain is given 2 times; give it once; see bigmac simulate --help");
}

TEST(BadTimes, AreNamedWithTheirOptionAndWhatIsLegal) {
  for (const char* value : {"1", "1,", ",2", "-1,2", "1,nan", "inf,1", "1e13,1", "one,two", ""}) {
    for (const char* option : {"--encoder", "--generator"})
      expect_error(
          {"simulate", "--pp", "4", "--microbatches", "8", option, value},
          std::string(option) +
              " must be two numbers from 0 to 1e+12 as FORWARD,BACKWARD, such as 0.5,1 or, with a name, "
              "image=0.5,1, got '" +
              value + "'");
    for (const char* option : {"--backbone", "--embedding", "--head"})
      expect_error({"simulate", "--pp", "4", "--microbatches", "8", option, value},
                   std::string(option) +
                       " must be numbers from 0 to 1e+12 as FORWARD,BACKWARD, such as 1,2, or "
                       "FORWARD,INPUT,WEIGHT, such as 1,1,1, got '" +
                       value + "'");
  }
  for (const char* value : {"-1", "nan", "slow", "1,2"})
    expect_error({"simulate", "--pp", "4", "--microbatches", "8", "--latency", value},
                 std::string("--latency must be a number from 0 to 1e+12, got '") + value + "'");
}

TEST(BadTimes, OfThreePartsAreForTheLlmAlone) {
  auto outcome = run_bigmac("simulate --pp 4 --microbatches 8 --encoder 1,1,1");
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_TRUE(contains(outcome.err, "got '1,1,1'"));
}

TEST(BadTimes, OfABackboneThatTakesNoneAreRefused) {
  expect_error("simulate --pp 4 --microbatches 8 --backbone 0,0",
               "--backbone must have a forward or a backward that takes time, got 0,0");
  expect_error("simulate --pp 2 --microbatches 8 --layout E|L",
               "--layout: no stage takes any time; give it layers, or --embedding or --head");
}

TEST(BadModule, IsNamed) {
  const std::string step = "schedule --pp 4 --microbatches 8 ";
  expect_error(
      step + "--encoder --encoder 1,2",
      "--encoder: two modules are named 'encoder'; name them apart, as in --encoder image=0.5,1 --encoder "
      "audio=0.2,0.4");
  expect_error(
      step + "--encoder a=1,2 --generator a=1,2",
      "--generator: two modules are named 'a'; name them apart, as in --generator image=0.5,1 --generator "
      "audio=0.2,0.4");
  expect_error(step + "--encoder backbone=1,2", "--encoder: 'backbone' is the LLM; take another name");
  expect_error(step + "--encoder image=1,2 --items imagee=4",
               "--items: unknown module 'imagee' (did you mean 'image'?); known: image");
  expect_error(step + "--encoder image=1,2 --generator --warmup-units generator=4",
               "--warmup-units: unknown module 'generator'; known: image");
  expect_error(step + "--encoder image=1,2 --generator --frozen imagee",
               "--frozen: unknown encoder 'imagee' (did you mean 'image'?); known: image");
  expect_error(step + "--frozen", "--frozen: the step has no encoder; declare one with --encoder");
  expect_error(step + "--generator --frozen generator",
               "[schedule] module 'generator' is a generator and cannot be frozen (trained = false): its "
               "forward and backward are one operator, because gradients pass through it to the backbone");
}

TEST(BadItems, AreNamedWithWhatIsLegal) {
  const std::string step = "schedule --pp 4 --microbatches 8 --encoder --items ";
  for (const char* value : {"0", "-4", "16777217", "99999999999999999999"})
    expect_error(step + value,
                 std::string("--items must be 1 to 16777216 a microbatch, got '") + value + "'");
  for (const char* value :
       {"random:", "random:4", "random:0.5,1", "random:4,-1", "random:4,11", "random:4,1,1",
        "random:4,1,-0.1", "random:4,1,0.5,2", "random:nan,1", "random:4,x"})
    expect_error(
        step + value,
        std::string("--items must be random:MEAN,SIGMA[,EMPTY] with MEAN from 1 to 1e+06, SIGMA from 0 to "
                    "10 and EMPTY from 0 to less than 1, such as random:8,1,0.5, got '") +
            value + "'");
  for (const char* value : {"16777216", "random:1000000,1"}) {
    auto outcome = run_bigmac("schedule --pp 4 --microbatches 20 --encoder --items " + std::string(value));
    EXPECT_EQ(outcome.exit_code, 2);
    EXPECT_TRUE(contains(outcome.err, "take fewer items or microbatches"));
  }
  expect_error(
      step + "/nowhere/items.csv",
      "--items must be N, random:MEAN,SIGMA[,EMPTY] or a file: cannot read '/nowhere/items.csv': No such "
      "file or directory");
  expect_error(
      step + "/dev/zero",
      "--items must be N, random:MEAN,SIGMA[,EMPTY] or a file: cannot read '/dev/zero': it has more than "
      "536870912 bytes");
  expect_error(step + "2 --items 3", "--items is given twice for all modules; name one: --items NAME=3");
  expect_error(step + "encoder=2 --items encoder=3", "--items is given twice for 'encoder'; give it once");
}

TEST(BadLayout, IsNamedWithWhatDoesNotFit) {
  const std::string step = "simulate --pp 2 --microbatches 8 --layout ";
  expect_error(step + "EttL", "--layout: holds 1 stages, which must be a multiple of the 2 pipeline ranks");
  expect_error(step + "Et|tL --vpp 2",
               "--layout: holds 2 stages, which is V=1 on 2 ranks; leave --vpp 2 out");
  expect_error(step + "Et|tL --layers 3", "--layout: holds 2 layers, the model has 3");
  auto outcome = run_bigmac(step + "Ex|L");
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_TRUE(contains(outcome.err, "--layout: position 2 ('x'): "));
}

TEST(WithoutEffect, IsNoted) {
  const std::string step = "schedule --pp 2 --microbatches 4 ";
  auto note = [&](const std::string& options) {
    auto outcome = run_bigmac(step + options);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return outcome.err;
  };
  EXPECT_TRUE(contains(note("--items 4"), "--items has no effect"));
  EXPECT_TRUE(contains(note("--encoder --seed 3"), "--seed has no effect"));
  EXPECT_TRUE(contains(note("--generator --warmup-units 3"), "--warmup-units has no effect"));
  EXPECT_TRUE(contains(note("--encoder --generator-unit 1"), "--generator-unit has no effect"));
  EXPECT_TRUE(contains(note("--layers 4"), "--layers has no effect"));
  EXPECT_TRUE(contains(note("--order balanced"), "--order has no effect"));
  EXPECT_TRUE(contains(note("--encoder --schedule llm-only"), "--encoder has no effect"));
  EXPECT_TRUE(contains(note("--encoder --schedule disttrain --base 1f1b"), "--base has no effect"));
  EXPECT_TRUE(
      contains(note("--encoder --schedule optimus --warmup-units 3"), "--warmup-units has no effect"));
  EXPECT_TRUE(contains(note("--encoder --schedule megatron --no-spread"), "--no-spread has no effect"));
  EXPECT_TRUE(contains(note("--encoder --frozen --warmup-units 3"), "--warmup-units has no effect"));
  EXPECT_EQ(note("--encoder --frozen --schedule nested-fill --warmup-units 3"), "");
  EXPECT_EQ(note("--encoder --items random:2,1 --seed 3 --warmup-units 3 --order balanced"), "");
}
