#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/apps/program.h"

using bigmac::contains;
using bigmac::Outcome;
using bigmac::run_bigmac;
using bigmac::TemporaryFile;
using nlohmann::json;

namespace {

Outcome check(const std::string& text, const std::string& options = "") {
  TemporaryFile file("table");
  std::ofstream(file.path()) << text;
  return run_bigmac("check " + file.path() + (options.empty() ? "" : " ") + options);
}

const std::string kTwoRanks =
    "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1\n"
    "1RECV_F0,1F0,1B0,1SEND_B0,1RECV_F1,1F1,1B1,1SEND_B1\n";

}  // namespace

TEST(CheckCommand, SaysOkAndSimulatesWhatItRead) {
  auto outcome = check(kTwoRanks);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  EXPECT_TRUE(
      contains(outcome.out,
               "ok: 2 ranks, 2 stages, 2 microbatches, 8 operators: 4 F, 4 B; at most 2 chunk-forwards live "
               "on a rank\n"));
  EXPECT_TRUE(contains(outcome.out, "makespan"));
  EXPECT_TRUE(contains(outcome.out, "idle/total"));
  EXPECT_TRUE(contains(outcome.out, "lower bound"));
}

TEST(CheckCommand, TakesTimesOfAllOperators) {
  auto report = [](const std::string& options) {
    auto outcome = check("0F0,0I0,0W0\n1F0,1I0,1W0\n", "--json " + options);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return json::parse(outcome.out)["report"];
  };
  EXPECT_EQ(report("")["makespan"], 5);
  EXPECT_EQ(report("--backbone 2,3,10")["makespan"], 20);
  EXPECT_EQ(report("--backbone 1,2 --latency 0.5")["makespan"], 6);
}

TEST(CheckCommand, ReadsWhatTheScheduleCommandWrites) {
  for (std::string format : {"csv", "json"}) {
    TemporaryFile file("table." + format);
    auto written = run_bigmac("schedule --pp 2 --microbatches 4 --encoder --generator --format " + format +
                              " --output " + file.path());
    ASSERT_EQ(written.exit_code, 0) << written.err;
    auto outcome = run_bigmac("check " + file.path() + " --encoder 0.5,1 --generator 2,4 --sends blocking");
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    EXPECT_TRUE(contains(outcome.out, "ok: 2 ranks, 2 stages, 4 microbatches"));
    EXPECT_EQ(outcome.err, "");
    outcome = run_bigmac("check " + file.path());
    EXPECT_TRUE(contains(outcome.err, "note: the table's encoder operators take no time"));
  }
}

TEST(CheckCommand, PrintsProblemsAndExitsWithOne) {
  auto outcome = check("0B0,0F0\n");
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(outcome.out,
            "deadlock:\n  rank 0 position 0 (backbone B chunk 0 microbatch 0) needs the output of rank 0 "
            "position 1 "
            "(backbone F chunk 0 microbatch 0)\n");
  EXPECT_TRUE(contains(outcome.err, "holds no table that runs: 1 problem\n"));
}

TEST(CheckCommand, LetsSendsBlock) {
  EXPECT_EQ(check(kTwoRanks, "--sends buffered").exit_code, 0);
  auto outcome = check(kTwoRanks, "--sends blocking");
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_TRUE(contains(outcome.out, "rank 0 cell 4 (0SEND_F1) waits for rank 1 cell 5 (1RECV_F1)"));
}

TEST(CheckCommand, PrintsAllOfItAsJson) {
  auto outcome = check("0F0,0F1,0B0,0B1\n", "--json");
  auto found = json::parse(outcome.out);
  EXPECT_EQ(found["format"], "torch CSV");
  EXPECT_EQ(found["ok"], true);
  EXPECT_EQ(found["problems"], json::array());
  EXPECT_EQ(found["ranks"], 1);
  EXPECT_EQ(found["microbatches"], 2);
  EXPECT_EQ(found["operators"][0], json({{"module", "backbone"}, {"operator", "F"}, {"count", 2}}));
  EXPECT_EQ(found["report"]["makespan"], 6);
  outcome = check("0F0,0F1,0B0\n", "--json");
  EXPECT_EQ(outcome.exit_code, 1);
  found = json::parse(outcome.out);
  EXPECT_EQ(found["ok"], false);
  EXPECT_EQ(found["problems"], json::array({"rank 0 misses backbone B chunk 0 microbatch 1"}));
  EXPECT_FALSE(found.contains("report"));
}

TEST(CheckCommand, ExitsWithTwoForWhatItCannotRead) {
  for (std::string text : {"", "nothing", "{", "0F0junk\n", "# bigmac table 2\n"}) {
    auto outcome = check(text);
    EXPECT_EQ(outcome.exit_code, 2) << text;
    EXPECT_EQ(outcome.out, "");
  }
  EXPECT_EQ(run_bigmac("check /nonexistent").exit_code, 2);
  EXPECT_EQ(run_bigmac("check /").exit_code, 2);
  EXPECT_EQ(run_bigmac("check").exit_code, 2);
  EXPECT_EQ(check("0F0,0B0\n", "--sends never").exit_code, 2);
}

TEST(CheckCommand, TakesTheStepsOfTorchsSchedules) {
  std::string folder = BIGMAC_SHARED_DATA "/torch-schedules/";
  if (!std::filesystem::is_directory(folder)) GTEST_SKIP() << "no data folder " << folder;
  for (auto [name, makespan] :
       {std::pair("zb_interleaved_4rank_6mb", 39), std::pair("dualpipev_4rank_10mb", 63),
        std::pair("zb1p_2rank_2stagep_comms_old_dialect", 49),
        std::pair("zb1p_2rank_2stagep_compute_old_dialect", 49)}) {
    auto outcome = run_bigmac(std::vector<std::string>{"check", folder + name + ".csv", "--json"});
    EXPECT_EQ(outcome.exit_code, 0) << outcome.out;
    EXPECT_EQ(json::parse(outcome.out)["report"]["makespan"], makespan) << name;
  }
}
