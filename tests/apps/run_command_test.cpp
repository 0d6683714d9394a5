#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "tests/apps/program.h"

using bigmac::contains;
using bigmac::run_bigmac;
using bigmac::TemporaryFile;
using nlohmann::json;

namespace {

const std::string kSmall = BIGMAC_SOURCE_DIR "/workloads/small.yaml";

// A machine that is busy otherwise takes longer, never shorter.
constexpr double kLeastGap = -0.03, kMostGap = 0.5;

TEST(RunCommand, EmulatesAStepOverThreadsAndProcesses) {
  for (const std::string ranks_as : {"threads", "processes"}) {
    TemporaryFile trace("emulated-" + ranks_as + ".json");
    auto outcome = run_bigmac("run " + kSmall + " --emulate --seconds 1 --steps 1 --json --ranks-as " +
                              ranks_as + " --trace " + trace.path());
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
    auto told = json::parse(outcome.out);
    EXPECT_EQ(told["ranks"], 2);
    EXPECT_NEAR(double(told["simulated"]), 1, 1e-6);
    EXPECT_GT(double(told["gap"]), kLeastGap);
    EXPECT_LT(double(told["gap"]), kMostGap);
    EXPECT_NEAR(
        double(told["busy"]) + double(told["transfer"]) + double(told["order"]) + double(told["bubble"]), 1,
        1e-9);
    auto report = run_bigmac("report " + trace.path());
    EXPECT_EQ(report.exit_code, 0) << report.err;
  }
}

TEST(RunCommand, RunsTheConfigurationThatOptionsFix) {
  auto outcome =
      run_bigmac("run " + kSmall + " --emulate --seconds 0.5 --steps 1 --pp 4 --vpp 1 --schedule nested");
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_TRUE(contains(outcome.out, "P=4 V=1 ")) << outcome.out;
  EXPECT_TRUE(contains(outcome.out, "nested schedule"));
  EXPECT_TRUE(contains(outcome.out, "measured "));
}

TEST(RunCommand, NamesWhatIsWrong) {
  auto error = [](const std::string& arguments) {
    auto outcome = run_bigmac("run " + arguments);
    EXPECT_EQ(outcome.exit_code, 2) << arguments;
    return outcome.err;
  };
  EXPECT_TRUE(contains(error(kSmall), "run needs --emulate"));
  EXPECT_TRUE(contains(error(kSmall + " --emulate --seconds 0"),
                       "--seconds must be a number above 0 up to 3600, got '0'"));
  EXPECT_TRUE(
      contains(error(kSmall + " --emulate --ranks-as fibres"), "'fibres' is neither threads nor processes"));
  EXPECT_TRUE(contains(error("no-such.yaml --emulate"), "no-such.yaml"));
}

}  // namespace
