#include <filesystem>
#include <fstream>

#include "tests/apps/traced.h"

using bigmac::contains;
using bigmac::run_bigmac;
using bigmac::TemporaryFile;
using bigmac::Traced;
using nlohmann::json;

namespace {

const std::string kStep = "--pp 3 --vpp 2 --microbatches 6 --encoder 0.5,1 --transfer 0.1 --exchange batched";

// A trace of which only the beginning is there.
class CutTrace : public testing::Test {
 protected:
  CutTrace() : whole_(kStep), cut_("cut.json"), page_("cut.html"), picture_("cut.svg") {}

  void cut(double share) {
    auto text = whole_.text();
    std::ofstream(cut_.path(), std::ios::binary) << text.substr(0, size_t(share * double(text.size())));
  }
  // Refuses, or says what is missing.
  static bool is_shown(const std::string& command, const std::string& wrote) {
    auto outcome = run_bigmac(command);
    if (outcome.exit_code == 2) {
      EXPECT_EQ(outcome.out, "") << command;
      EXPECT_TRUE(contains(outcome.err, "bigmac: error: ")) << command;
      return false;
    }
    EXPECT_EQ(outcome.exit_code, 0) << command << outcome.err;
    EXPECT_TRUE(contains(outcome.out, wrote)) << command;
    return true;
  }

  Traced whole_;
  TemporaryFile cut_, page_, picture_;
};

TEST_F(CutTrace, IsShownByReportViewAndDraw) {
  int shown = 0;
  for (double share : {0.001, 0.05, 0.2, 0.35, 0.5, 0.66, 0.8, 0.95, 0.999}) {
    cut(share);
    SCOPED_TRACE(share);
    bool report = is_shown("report " + cut_.path(), "note: ");
    EXPECT_EQ(is_shown("view " + cut_.path() + " -o " + page_.path(), "page: "), report);
    EXPECT_EQ(is_shown("draw " + cut_.path() + " --path --svg " + picture_.path(), "picture: "), report);
    EXPECT_EQ(is_shown("draw " + cut_.path(), "rank 2 |"), report);
    shown += report;
  }
  EXPECT_EQ(shown, 8);
}

TEST_F(CutTrace, IsReportedWithWhatCanBeSaid) {
  cut(0.35);
  auto found = json::parse(run_bigmac("report --json " + cut_.path()).out);
  EXPECT_EQ(found["whole"], false);
  EXPECT_TRUE(contains(found["verdict"].get<std::string>(), "the step is not whole: "));
  EXPECT_FALSE(found.contains("critical_path"));
  EXPECT_FALSE(found.contains("findings"));
  EXPECT_EQ(found["rank_times"].size(), 3u);
  EXPECT_GT(found["rank_times"][0]["compute"], 0);
  EXPECT_EQ(found["rank_times"][2]["compute"], 0);
  EXPECT_TRUE(contains(found["notes"].dump(), "it was read that far"));
  auto text = run_bigmac("report " + cut_.path()).out;
  for (const char* part :
       {"ranks, ms; the five add up to the step", "what ranks wait for", "left out: they need"})
    EXPECT_TRUE(contains(text, part));
  EXPECT_FALSE(contains(text, "\ncritical path, "));
  auto against = run_bigmac("report " + whole_.path() + " --against " + cut_.path());
  EXPECT_EQ(against.exit_code, 2);
  EXPECT_TRUE(contains(against.err, "--against compares whole steps"));
}

TEST_F(CutTrace, IsNotReplayed) {
  cut(0.5);
  auto outcome = run_bigmac("replay " + cut_.path());
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_EQ(outcome.out, "");
  EXPECT_TRUE(contains(outcome.err, "the JSON ends too early"));
}

TEST_F(CutTrace, LacksARank) {
  auto trace = json::parse(whole_.text());
  json fewer{{"traceEvents", json::array()}};
  for (const auto& event : trace["traceEvents"])
    if (event["pid"] != 1) fewer["traceEvents"].push_back(event);
  std::ofstream(cut_.path()) << fewer.dump();
  auto found = json::parse(run_bigmac("report --json " + cut_.path()).out);
  EXPECT_TRUE(
      contains(found["notes"].dump(), "of 3 ranks these are missing, no operator of them was read: 1"));
  EXPECT_EQ(found["rank_times"][1]["compute"], 0);
  auto replayed = run_bigmac("replay " + cut_.path());
  EXPECT_EQ(replayed.exit_code, 2);
  EXPECT_TRUE(contains(replayed.err, "rank 1 is missing"));
}

// The page of a trace has what the page of the simulation has: waits, transfers, memory.
TEST(View, ShowsTheWaitsAndTransfersOfATrace) {
  Traced trace(kStep);
  TemporaryFile picture("waits.svg");
  ASSERT_EQ(run_bigmac("draw " + trace.path() + " --svg " + picture.path()).exit_code, 0);
  EXPECT_TRUE(contains(picture.text(), "#8c8c8c")) << "no transfers";
}

}  // namespace
