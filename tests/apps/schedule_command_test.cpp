#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "tests/apps/program.h"

using bigmac::contains;
using bigmac::run_bigmac;
using bigmac::TemporaryFile;
using nlohmann::json;

namespace {

json table_of(const std::string& arguments) {
  auto outcome = run_bigmac("schedule --format json " + arguments);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  return json::parse(outcome.out);
}

std::string without_comments(const std::string& csv) {
  std::string out;
  std::istringstream lines(csv);
  for (std::string line; std::getline(lines, line);)
    if (line.empty() || line[0] != '#') out += line + "\n";
  return out;
}

}  // namespace

TEST(ScheduleCommand, PrintsTheTableAsCsvOneOperatorALine) {
  auto outcome = run_bigmac("schedule --pp 2 --microbatches 2 --encoder --format csv");
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.err, "");
  EXPECT_EQ(without_comments(outcome.out),
            "rank,position,module,operator,chunk,microbatch,overlap,share,unit,items\n"
            "0,0,encoder,F,,,,0,0,0.0\n"
            "0,1,backbone,F,0,0,,,,\n"
            "0,2,backbone,F,0,1,,,,\n"
            "0,3,backbone,B,0,0,,,,\n"
            "0,4,backbone,B,0,1,,,,\n"
            "0,5,encoder,B,,,,0,0,0.0\n"
            "1,0,encoder,F,,,,1,0,1.0\n"
            "1,1,backbone,F,0,0,,,,\n"
            "1,2,backbone,B,0,0,,,,\n"
            "1,3,backbone,F,0,1,,,,\n"
            "1,4,backbone,B,0,1,,,,\n"
            "1,5,encoder,B,,,,1,0,1.0\n");
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

TEST(ScheduleCommand, ListsItemsThatTheGridsCellsDoNotTell) {
  auto mixed = run_bigmac("schedule --pp 2 --microbatches 2 --encoder --items 3");
  EXPECT_EQ(mixed.exit_code, 0);
  EXPECT_EQ(mixed.out,
            "rank 0 |EFu0 F0.0 F0.1      B0.0      B0.1 EBu0\n"
            "rank 1 |EFu0      F0.0 B0.0 F0.1 B0.1      EBu0\n"
            "\n"
            "F0.3 forward of chunk 0, microbatch 3   B0.3 its backward   EF3, EB3 encoder forward, backward\n"
            "EFu2 items of unit 2, listed below\n"
            "\n"
            "share  rank  module   size  items as microbatch.item\n"
            "EFu0      0  encoder     1  0.0 0.2 1.1\n"
            "EFu0      1  encoder     1  0.1 1.0 1.2\n");
  EXPECT_FALSE(contains(run_bigmac("schedule --pp 2 --microbatches 2 --encoder").out, "listed below"));
}

TEST(ScheduleCommand, SaysHowManySharesItDoesNotList) {
  auto many = run_bigmac("schedule --pp 8 --microbatches 128 --encoder --items 3").out;
  EXPECT_TRUE(contains(many, "\n... 64 more; --format csv has all\n"));
}

TEST(ScheduleCommand, TellsSeveralEncodersApart) {
  auto text = run_bigmac("schedule --pp 2 --microbatches 2 --encoder image=1,2 --encoder audio=1,2").out;
  EXPECT_TRUE(contains(text, "0EF0"));
  EXPECT_TRUE(contains(text, "1EF0"));
  EXPECT_TRUE(contains(text, "0E image   1E audio"));
}

TEST(ScheduleCommand, ExplainsSplitBackwards) {
  EXPECT_TRUE(contains(run_bigmac("schedule --pp 2 --microbatches 2 --base zb-h1").out,
                       "I0.3, W0.3 input, weight gradient"));
}

TEST(ScheduleCommand, PrintsTheTableAsJson) {
  auto table = table_of("--pp 4 --vpp 2 --microbatches 8 --encoder --generator");
  EXPECT_EQ(table["step"]["ranks"], 4);
  EXPECT_EQ(table["step"]["chunks"], 2);
  EXPECT_EQ(table["step"]["microbatches"], 8);
  ASSERT_EQ(table["rows"].size(), 4u);
  // 2 chunks of 8 microbatches forward and backward; of each of 2 units one EF, one EB and one G.
  for (const auto& row : table["rows"]) EXPECT_EQ(row.size(), 2u * 2 * 8 + 2 * 3);
}

TEST(ScheduleCommand, PrintsTheTableAsTorchWritesIt) {
  auto table = [](const std::string& format) {
    auto outcome = run_bigmac("schedule --pp 2 --microbatches 2 --base zb-h1 --format " + format);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    std::erase(outcome.out, '\r');
    return outcome.out;
  };
  EXPECT_EQ(table("torch"), "0F0,0F1,0I0,0W0,0I1,0W1\n1F0,1I0,1F1,1I1,1W0,1W1\n");
  EXPECT_EQ(table("torch-old"), "0F0,0F1,0B0,0W0,0B1,0W1\n1F0,1B0,1F1,1B1,1W0,1W1\n");
}

TEST(ScheduleCommand, HasNoEncodersInTorchsTables) {
  auto outcome = run_bigmac("schedule --pp 2 --microbatches 2 --encoder --format torch");
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_TRUE(contains(outcome.err, "take an llm-only table"));
}

TEST(ScheduleCommand, Takes1F1BForOneChunkAndInterleavedForMore) {
  auto base = [](const std::string& shape) { return table_of("--microbatches 8 " + shape)["step"]["base"]; };
  EXPECT_EQ(base("--pp 4"), "1f1b");
  EXPECT_EQ(base("--pp 4 --vpp 2"), "interleaved");
  EXPECT_EQ(base("--pp 4 --vpp 2 --base interleaved"), "interleaved");
}

TEST(ScheduleCommand, TakesEveryBaseAndEverySchedule) {
  for (const std::string base : {"gpipe --vpp 1", "1f1b --vpp 1", "interleaved --vpp 2", "zb-h1 --vpp 1",
                                 "zb-v --vpp 2", "dualpipe-v --vpp 2"})
    for (const std::string schedule :
         {"llm-only", "nested", "nested-fill", "three-phase", "optimus", "megatron", "disttrain"}) {
      auto outcome = run_bigmac("schedule --pp 4 --microbatches 9 --encoder --generator --items 2 --base " +
                                base + " --schedule " + schedule);
      EXPECT_EQ(outcome.exit_code, 0) << base << " " << schedule << ": " << outcome.err;
    }
}

TEST(ScheduleCommand, NestsWhereThereIsSomethingToNest) {
  auto arrangement = [](const std::string& modules) {
    return table_of("--pp 4 --microbatches 8 " + modules)["step"]["schedule"];
  };
  EXPECT_EQ(arrangement(""), "llm-only");
  EXPECT_EQ(arrangement("--encoder"), "nested");
  EXPECT_EQ(arrangement("--generator"), "nested");
  EXPECT_EQ(arrangement("--encoder --schedule three-phase"), "three-phase");
}

TEST(ScheduleCommand, TakesTheValueOfAnEncoderOrNone) {
  auto names = [](const std::string& modules) {
    std::vector<std::string> found;
    auto table = table_of("--pp 2 --microbatches 2 " + modules);
    for (const auto& module : table["step"]["modules"])
      found.push_back(module["kind"].get<std::string>() + " " + module["name"].get<std::string>());
    return found;
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(names("--encoder"), Names{"encoder encoder"});
  EXPECT_EQ(names("--encoder=1,2 --generator"), (Names{"encoder encoder", "generator generator"}));
  EXPECT_EQ(names("--encoder image=1,2 --generator --encoder"),
            (Names{"encoder image", "encoder encoder", "generator generator"}));
}

TEST(ScheduleCommand, TakesAGroupSizeOtherThanP) {
  for (const char* microbatches : {"13", "14"}) {
    auto table = table_of(std::string("--pp 4 --vpp 2 --group 5 --microbatches ") + microbatches);
    EXPECT_EQ(table["step"]["group"], 5);
  }
}

TEST(ScheduleCommand, TakesWarmupUnitsOfEachEncoder) {
  auto units = [](const std::string& options) {
    std::vector<int> found;
    auto table = table_of("--pp 2 --microbatches 16 --encoder image=1,2 --encoder audio=1,2 " + options);
    for (const auto& module : table["step"]["modules"]) found.push_back(module["warmup_units"]);
    return found;
  };
  EXPECT_EQ(units(""), (std::vector<int>{0, 0}));
  EXPECT_EQ(units("--warmup-units 5"), (std::vector<int>{5, 5}));
  EXPECT_EQ(units("--warmup-units audio=4 --warmup-units 5"), (std::vector<int>{5, 4}));
}

TEST(ScheduleCommand, LeavesOutTheBackwardsOfFrozenEncoders) {
  auto phases_of = [](const std::string& options) {
    std::map<std::string, std::set<std::string>> found;
    auto table = table_of("--pp 2 --microbatches 8 " + options);
    for (const auto& unit : table["units"]) found[unit["module"]].insert(unit["operator"]);
    return found;
  };
  using Phases = std::map<std::string, std::set<std::string>>;
  EXPECT_EQ(phases_of("--encoder --frozen"), (Phases{{"encoder", {"F"}}}));
  EXPECT_EQ(phases_of("--encoder a=1,2 --encoder b=1,2 --frozen b"),
            (Phases{{"a", {"F", "B"}}, {"b", {"F"}}}));
  EXPECT_EQ(phases_of("--encoder a=1,2 --encoder b=1,2 --frozen b --frozen a"),
            (Phases{{"a", {"F"}}, {"b", {"F"}}}));
  auto grid = run_bigmac("schedule --pp 2 --microbatches 2 --encoder --frozen");
  EXPECT_EQ(grid.out,
            "rank 0 |EF0  F0.0 F0.1      B0.0      B0.1\n"
            "rank 1 |EF1       F0.0 B0.0 F0.1 B0.1\n"
            "\n"
            "F0.3 forward of chunk 0, microbatch 3   B0.3 its backward   EF3 encoder forward\n");
}

TEST(ScheduleCommand, TakesTheSizeOfTheGeneratorsUnits) {
  auto table = table_of("--pp 4 --microbatches 8 --generator --generator-unit 2");
  EXPECT_EQ(table["step"]["generator_unit"], 2);
  int units = 0;
  for (const auto& unit : table["units"]) units += unit["operator"] == "G";
  EXPECT_EQ(units, 4);
}

TEST(ScheduleCommand, TakesItsChunksFromALayout) {
  auto table = table_of("--pp 2 --microbatches 4 --layout Et|tt|tt|tL --layers 6");
  EXPECT_EQ(table["step"]["chunks"], 2);
  EXPECT_EQ(table["step"]["base"], "interleaved");
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
