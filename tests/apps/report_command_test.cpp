#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "bigmac/common/error.h"
#include "tests/apps/traced.h"

using bigmac::contains;
using bigmac::run_bigmac;
using bigmac::TemporaryFile;
using bigmac::Traced;
using nlohmann::json;

namespace {

const std::string kPrimus = BIGMAC_SHARED_DATA "/primus-pp8";

json report(const std::string& arguments) {
  auto outcome = run_bigmac("report --json " + arguments);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  return json::parse(outcome.out);
}

const std::string kNested = "--pp 4 --vpp 2 --microbatches 16 --encoder 0.5,1 ";

}  // namespace

TEST(ReportCommand, SaysFirstWhatCostsMost) {
  Traced split("--pp 4 --vpp 2 --microbatches 16 --layout Et|t|t|ttt|t|t|t|tL");
  auto outcome = run_bigmac("report " + split.path());
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_TRUE(
      outcome.out.starts_with("stage 3 (rank 3) is slow: its operators take 3.00x those of the other stages; "
                              "costs "))
      << outcome.out;
  for (const char* part :
       {"P=4 V=2 M=16, 256 operators, base interleaved", "where the step goes", "what would help",
        "split the layers by time: stage 3 58 % less", "ranks, ms; the five add up to the step",
        "what ranks wait for", "critical path, ", "LLM stages", "against its own table", "note: "})
    EXPECT_TRUE(contains(outcome.out, part));
}

TEST(ReportCommand, SplitsLayersAnewWhereItKnowsThem) {
  Traced trace("--pp 4 --microbatches 16 --layout Et*4|t*4|t*8|t*4L");
  auto outcome = run_bigmac("report " + trace.path() + " --layout Et*4|t*4|t*8|t*4L");
  EXPECT_TRUE(contains(outcome.out, "split the layers as Et*5|t*5|t*5|t*5,L")) << outcome.err;
  outcome = run_bigmac("report " + trace.path() + " --layout Et*4|t*4L");
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_TRUE(contains(outcome.err, "[layout] holds 2 stages, the step has 4"));
}

TEST(ReportCommand, NamesAnImageSixtyTimesLarger) {
  TemporaryFile items("items.csv");
  std::ofstream file(items.path());
  file << "microbatch,size\n";
  for (int m = 0; m < 16; ++m)
    for (int n = 0; n < 8; ++n) file << m << "," << (m == 9 && n == 2 ? 7.5 : 0.125) << "\n";
  file.close();
  Traced trace(kNested + "--items " + items.path());
  auto found = report(trace.path());
  EXPECT_EQ(found["findings"][0]["fault"], "straggling item");
  EXPECT_EQ(found["findings"][0]["microbatch"], 9);
  EXPECT_NEAR(found["findings"][0]["factor"], 60, 1e-9);
  EXPECT_GT(found["findings"][0]["cost_of_step"], 0.03);
}

TEST(ReportCommand, NamesASlowRankOfATraceInAFileForEachRank) {
  Traced trace("--pp 2 --vpp 2 --microbatches 8 --layout Et|tt|t|ttL");
  auto whole = json::parse(trace.text());
  json files[2] = {{{"traceEvents", json::array()}}, {{"traceEvents", json::array()}}};
  for (auto& event : whole["traceEvents"]) files[event["pid"].get<int>()]["traceEvents"].push_back(event);
  TemporaryFile first("rank0.json"), second("rank1.json");
  std::ofstream(first.path()) << files[0].dump();
  std::ofstream(second.path()) << files[1].dump();
  auto found = report(first.path() + " " + second.path());
  EXPECT_EQ(found["findings"][0]["fault"], "slow rank") << found["verdict"];
  EXPECT_EQ(found["findings"][0]["rank"], 1);
  EXPECT_NEAR(found["findings"][0]["factor"], 2, 1e-9);
}

TEST(ReportCommand, AddsUpInJson) {
  Traced trace(kNested + "--generator 2,4 --transfer 0.1,0.02 --exchange batched --items random:4,1");
  auto found = report(trace.path());
  EXPECT_NEAR(found["step"], trace.makespan() * 1e-3, 1e-9);
  double sum = found["step_shares"]["operators"].get<double>() +
               found["step_shares"]["warm_up_and_order"].get<double>() +
               found["step_shares"]["ends"].get<double>();
  for (const auto& finding : found["findings"]) sum += finding["cost_of_step"].get<double>();
  EXPECT_NEAR(sum, 1, 1e-6);
  EXPECT_EQ(found["waits_recorded"], true);
  ASSERT_EQ(found["rank_times"].size(), 4u);
  for (const auto& rank : found["rank_times"]) {
    double parts = 0;
    for (const char* part : {"compute", "transfer", "order", "wait", "idle"})
      parts += rank[part].get<double>();
    EXPECT_NEAR(parts, found["step"], 1e-9);
    EXPECT_GT(rank["transfer"], 0);
  }
}

TEST(ReportCommand, AlignsClocksThatAreSecondsApart) {
  Traced trace(kNested + "--transfer 0.1,0.02 --exchange batched");
  auto shifted = json::parse(trace.text());
  for (auto& event : shifted["traceEvents"])
    if (event["ph"] == "X" && event["pid"] == 2) event["ts"] = event["ts"].get<double>() + 11e6;
  TemporaryFile file("shifted.json");
  std::ofstream(file.path()) << shifted.dump();
  auto found = report(file.path());
  EXPECT_NEAR(found["step"], trace.makespan() * 1e-3, 0.02 * trace.makespan() * 1e-3);
  EXPECT_TRUE(contains(found["notes"].dump(), "the ranks' clocks differ"));
  EXPECT_GT(found["rank_times"][2]["transfer"], 0);
}

TEST(ReportCommand, ComparesWithATraceAndWithATable) {
  Traced now(kNested + "--backbone 1.2,2.4", "now.json"), before(kNested, "before.json");
  auto gap = report(now.path() + " --against " + before.path())["gap"];
  EXPECT_NEAR(gap["other"], before.makespan() * 1e-3, 1e-9);
  EXPECT_NEAR(gap["operators"], gap["difference"], 1e-9);
  EXPECT_NEAR(gap["difference"], (now.makespan() - before.makespan()) * 1e-3, 1e-9);
  TemporaryFile table("table.json");
  auto outcome = run_bigmac("schedule " + kNested + "--format json --output " + table.path());
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  gap = report(before.path() + " --against " + table.path())["gap"];
  EXPECT_NEAR(gap["difference"], 0, 1e-9);
  EXPECT_TRUE(contains(gap["against"].get<std::string>(), table.path()));
  Traced other("--pp 4 --vpp 2 --microbatches 8 --encoder 0.5,1", "other.json");
  outcome = run_bigmac("report " + now.path() + " --against " + other.path());
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_TRUE(contains(outcome.err, "--against must be of the same step, P=4 V=2 M=16"));
}

TEST(ReportCommand, ColoursOnATerminalOnly) {
  Traced trace(kNested);
  bigmac::Setting terminal{.stdout_is = bigmac::Stdout::terminal, .environment = {{"TERM", "xterm"}}};
  EXPECT_TRUE(contains(run_bigmac("report " + trace.path(), terminal).out, "\033[1;32m"));
  terminal.environment.push_back({"NO_COLOR", "1"});
  for (const auto& setting : {terminal, bigmac::Setting{}})
    EXPECT_EQ(run_bigmac("report " + trace.path(), setting).out.find('\033'), std::string::npos);
}

TEST(ReportCommand, RefusesWrongInputWithCode2) {
  Traced trace(kNested);
  TemporaryFile empty("empty.json"), junk("junk.json");
  std::ofstream(empty.path()).flush();
  std::ofstream(junk.path()) << "\x7f"
                                "ELF"
                             << std::string(100, '\0');
  struct Case {
    std::string arguments, told;
  };
  for (const auto& [arguments, told] :
       {Case{"", "TRACE"}, Case{"/nonexistent", "cannot read '/nonexistent'"}, Case{empty.path(), "empty"},
        Case{junk.path(), "is no JSON"}, Case{trace.path() + " --step 3", "has no iteration '3'"},
        Case{trace.path() + " --against /nonexistent", "cannot read '/nonexistent'"},
        Case{trace.path() + " --agains x", "did you mean '--against'"}}) {
    auto outcome = run_bigmac("report " + arguments);
    EXPECT_EQ(outcome.exit_code, 2) << arguments;
    EXPECT_EQ(outcome.out, "") << arguments;
    EXPECT_TRUE(contains(outcome.err, told)) << arguments;
  }
}

TEST(ReportCommand, FindsThatTheLastStageOfPrimusPp8IsLongest) {
  if (!std::filesystem::is_directory(kPrimus)) GTEST_SKIP() << "no data folder " << kPrimus;
  auto found = report("--step 7 " + kPrimus);
  EXPECT_NEAR(found["step"], 3.2379, 5e-5);
  EXPECT_NEAR(found["idle_over_total"], 0.3543, 1e-3);
  EXPECT_EQ(found["findings"][0]["fault"], "slow stage");
  EXPECT_EQ(found["findings"][0]["stage"], 7);
  ASSERT_EQ(found["memory"].size(), 8u);
  EXPECT_EQ(found["memory"][0]["chunks_in_flight"], 8);
}

TEST(ReportCommand, TellsItsOptionsAndExamples) {
  auto outcome = run_bigmac("report --help");
  EXPECT_EQ(outcome.exit_code, 0);
  for (const char* part : {"\n  --against SCHEDULE|TRACE", "\n  --step,--iteration N", "\n  --json",
                           "\n  --try-all", "Examples:"})
    EXPECT_TRUE(contains(outcome.out, part));
}
