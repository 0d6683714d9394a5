#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/apps/program.h"

using bigmac::contains;
using bigmac::run_bigmac;
using bigmac::TemporaryFile;
using nlohmann::json;

namespace {

// 4 ranks; the one item of microbatch 9 takes 40 forward and 80 backward, all others 0.5 and 1.
class LateEncoder : public testing::Test {
 protected:
  LateEncoder() : items_("late.csv") {
    std::ofstream out(items_.path());
    out << "microbatch,size\n";
    for (int m = 0; m < 16; ++m) out << m << "," << (m == 9 ? 80 : 1) << "\n";
  }
  bigmac::Outcome simulate(const std::string& options) const {
    return run_bigmac("simulate --pp 4 --microbatches 16 --encoder image=0.5,1 --items " + items_.path() +
                      " " + options);
  }
  TemporaryFile items_;
};

int lines_with(const std::string& text, const std::string& part) {
  int count = 0;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) count += line.find(part) != std::string::npos;
  return count;
}

}  // namespace

TEST_F(LateEncoder, IsWhatTheRanksWaitFor) {
  auto outcome = simulate("--explain");
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_TRUE(contains(outcome.out, "image F unit 2 item 0 of microbatch 9 on rank "));
  EXPECT_TRUE(contains(outcome.out, "critical path, "));
  EXPECT_TRUE(contains(outcome.out, "the step began"));
}

TEST_F(LateEncoder, StandsInTheJson) {
  auto explain = json::parse(simulate("--explain --json").out)["explain"];
  const std::string late = "image F unit 2 item 0 of microbatch 9";
  bool on_path = false;
  double end = 0;
  for (const auto& step : explain["critical_path"]) {
    on_path |= step["operator"] == late && step["end"].get<double>() - step["start"].get<double>() == 40;
    EXPECT_DOUBLE_EQ(step["start"].get<double>(), end + step["gap"].get<double>());
    end = step["end"];
  }
  EXPECT_TRUE(on_path);
  EXPECT_EQ(explain["critical_path"][0]["cause"], "start");
  double shares = 0;
  for (const auto& share : explain["shares"]) shares += share.get<double>();
  EXPECT_NEAR(shares, 1, 1e-9);
  EXPECT_GT(explain["shares"]["image"], 0.5);
  ASSERT_EQ(explain["waits"].size(), 4u);
  int blamed = 0;
  for (const auto& waits : explain["waits"]) {
    ASSERT_FALSE(waits.empty());
    EXPECT_LE(waits.size(), 3u);
    for (const auto& wait : waits)
      for (const char* reason : {"for", "culprit"})
        blamed += wait[reason].is_object() && wait[reason]["operator"] == late;
  }
  EXPECT_GE(blamed, 3);
}

TEST_F(LateEncoder, IsOneOfAsManyWaitsAsAreAskedFor) {
  EXPECT_EQ(lines_with(simulate("--explain 1").out, " waits "), 4);
  EXPECT_GT(lines_with(simulate("--explain 5").out, " waits "), 12);
  EXPECT_EQ(lines_with(simulate("").out, " waits "), 0);
}

TEST(Explain, NamesMessagesWhereTheyTakeTime) {
  auto text = run_bigmac("simulate --pp 4 --microbatches 4 --latency 0.5 --explain").out;
  EXPECT_TRUE(contains(text, "messages "));
  EXPECT_TRUE(contains(text, ", and a message of 0.5"));
}

TEST(Explain, StaysReadableForManyRanks) {
  auto text = run_bigmac("simulate --pp 64 --microbatches 256 --encoder 0.5,1 --explain").out;
  EXPECT_TRUE(contains(text, " more; --json has all"));
  EXPECT_TRUE(contains(text, "of the 16 ranks of 64 that idle most"));
  EXPECT_LE(lines_with(text, " waits "), 48);
}

TEST(Explain, SaysWhereARankIsDone) {
  EXPECT_TRUE(contains(run_bigmac("simulate --pp 2 --microbatches 2 --explain").out,
                       "rank 1 waits 2 from 7 to 9: its row is done"));
}
