#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/apps/program.h"

using bigmac::contains;
using bigmac::run_bigmac;
using bigmac::TemporaryFile;
using nlohmann::json;

TEST(ScheduleCommand, PrintsTheTableAsCsvOneOperatorALine) {
  auto outcome = run_bigmac("schedule --pp 2 --microbatches 2 --encoder --format csv");
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.err, "");
  EXPECT_EQ(outcome.out,
            "rank,position,module,operator,chunk,microbatch\n"
            "0,0,encoder,F,,0\n"
            "0,1,backbone,F,0,0\n"
            "0,2,backbone,F,0,1\n"
            "0,3,backbone,B,0,0\n"
            "0,4,backbone,B,0,1\n"
            "0,5,encoder,B,,0\n"
            "1,0,encoder,F,,1\n"
            "1,1,backbone,F,0,0\n"
            "1,2,backbone,B,0,0\n"
            "1,3,backbone,F,0,1\n"
            "1,4,backbone,B,0,1\n"
            "1,5,encoder,B,,1\n");
}

TEST(ScheduleCommand, PrintsAGridWithALegendByDefault) {
  auto outcome = run_bigmac("schedule --pp 2 --microbatches 2");
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.out,
            "rank 0 |F0.0 F0.1      B0.0      B0.1\n"
            "rank 1 |     F0.0 B0.0 F0.1 B0.1\n"
            "\n"
            "F0.3 forward of chunk 0, microbatch 3   B0.3 its backward\n");
}

TEST(ScheduleCommand, ExplainsOnlyTheModulesThatTheGridShows) {
  auto both = run_bigmac("schedule --pp 2 --microbatches 2 --encoder --generator").out;
  EXPECT_TRUE(contains(both, "EF3, EB3 encoder"));
  EXPECT_TRUE(contains(both, "G3 generator"));
  auto one = run_bigmac("schedule --pp 2 --microbatches 2 --generator").out;
  EXPECT_FALSE(contains(one, "encoder"));
}

TEST(ScheduleCommand, PrintsTheTableAsJson) {
  auto outcome = run_bigmac("schedule --pp 4 --vpp 2 --microbatches 8 --encoder --generator --format json");
  ASSERT_EQ(outcome.exit_code, 0);
  auto table = json::parse(outcome.out);
  EXPECT_EQ(table["ranks"], 4);
  EXPECT_EQ(table["chunks"], 2);
  EXPECT_EQ(table["microbatches"], 8);
  ASSERT_EQ(table["rows"].size(), 4u);
  // 2 chunks of 8 microbatches forward and backward; of each of 2 units one EF, one EB and one G.
  for (const auto& row : table["rows"]) EXPECT_EQ(row.size(), 2u * 2 * 8 + 2 * 3);
}

TEST(ScheduleCommand, Takes1F1BForOneChunkAndInterleavedForMore) {
  auto base = [](const std::string& shape) {
    return json::parse(run_bigmac("schedule --microbatches 8 --format json " + shape).out)["base"];
  };
  EXPECT_EQ(base("--pp 4"), "1f1b");
  EXPECT_EQ(base("--pp 4 --vpp 2"), "interleaved");
  EXPECT_EQ(base("--pp 4 --vpp 2 --base interleaved"), "interleaved");
}

TEST(ScheduleCommand, NestsWhereThereIsSomethingToNest) {
  auto arrangement = [](const std::string& modules) {
    return json::parse(
        run_bigmac("schedule --pp 4 --microbatches 8 --format json " + modules).out)["schedule"];
  };
  EXPECT_EQ(arrangement(""), "llm-only");
  EXPECT_EQ(arrangement("--encoder"), "nested");
  EXPECT_EQ(arrangement("--generator"), "nested");
  EXPECT_EQ(arrangement("--encoder --schedule three-phase"), "three-phase");
}

TEST(ScheduleCommand, TakesAGroupSizeOtherThanP) {
  auto outcome = run_bigmac("schedule --pp 4 --vpp 2 --microbatches 13 --group 5 --format json");
  ASSERT_EQ(outcome.exit_code, 2);
  outcome = run_bigmac("schedule --pp 4 --vpp 2 --microbatches 14 --group 5 --format json");
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(json::parse(outcome.out)["group"], 5);
}

TEST(ScheduleCommand, TakesMoreWarmupUnits) {
  auto table = json::parse(
      run_bigmac("schedule --pp 2 --microbatches 16 --encoder --warmup-units 5 --format json").out);
  EXPECT_EQ(table["warmup_units"], 5);
}

TEST(ScheduleCommand, PrintsTheSameTableForSendsThatBlock) {
  for (const char* step : {"schedule --pp 4 --vpp 2 --microbatches 20 --group 5 --format csv",
                           "schedule --pp 4 --vpp 2 --microbatches 16 --encoder --generator --format csv"}) {
    auto buffered = run_bigmac(std::string(step) + " --sends buffered");
    auto blocking = run_bigmac(std::string(step) + " --sends blocking");
    EXPECT_EQ(blocking.exit_code, 0) << blocking.err;
    EXPECT_EQ(blocking.out, buffered.out);
  }
}

TEST(ScheduleCommand, WritesToAFileWhatItWouldPrint) {
  TemporaryFile file("schedule.csv");
  const std::string table = "schedule --pp 4 --microbatches 8 --encoder --format csv";
  auto outcome = run_bigmac(table + " --output " + file.path());
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.out, "");
  EXPECT_EQ(file.text(), run_bigmac(table).out);
}

TEST(ScheduleCommand, RefusesAGridThatIsMostlyBlanks) {
  auto outcome = run_bigmac("schedule --pp 1000000 --microbatches 1");
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_TRUE(contains(outcome.err, "a grid of P=1000000 V=1 M=1"));
  EXPECT_TRUE(contains(outcome.err, "take --format csv or json"));
}
