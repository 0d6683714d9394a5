#include <gtest/gtest.h>

#include "tests/apps/program.h"

using bigmac::contains;
using bigmac::run_bigmac;
using bigmac::TemporaryFile;

namespace {

const std::string kPrimus = BIGMAC_SHARED_DATA "/primus-pp8";
const std::string kTorch = BIGMAC_SHARED_DATA "/torch-schedules/zb_interleaved_4rank_6mb.csv";

size_t recordings_in(const std::string& page) {
  size_t count = 0;
  for (size_t at = page.find("class=\"recording\""); at != std::string::npos;
       at = page.find("class=\"recording\"", at + 1))
    ++count;
  return count;
}

}  // namespace

TEST(View, WritesAPageOfATrace) {
  TemporaryFile trace("step.json"), page("step.html");
  ASSERT_EQ(run_bigmac("simulate --pp 2 --microbatches 4 --encoder 0.5,1 --trace " + trace.path()).exit_code,
            0);
  auto outcome = run_bigmac("view " + trace.path() + " -o " + page.path());
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(outcome.out, "page: " + page.path() + " (open it in a browser)\n");
  EXPECT_EQ(page.text().substr(0, 15), "<!DOCTYPE html>");
  EXPECT_EQ(recordings_in(page.text()), 1u);
}

TEST(View, ShowsADumpATableAndATraceOneAboveTheOther) {
  TemporaryFile table("table.csv"), page("all.html");
  ASSERT_EQ(run_bigmac("schedule --pp 2 --microbatches 4 --format csv --output " + table.path()).exit_code,
            0);
  auto outcome = run_bigmac(
      {"view", kPrimus, "mine=" + table.path(), kTorch, "-o", page.path(), "--title", "a <b> title"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(recordings_in(page.text()), 3u);
  EXPECT_TRUE(contains(page.text().substr(0, 4000), "<title>a &lt;b&gt; title</title>"));
  EXPECT_TRUE(contains(outcome.err, "do not compare"));
}

TEST(View, IsWrittenBySimulateAsWell) {
  TemporaryFile page("simulated.html");
  auto outcome = run_bigmac("simulate --pp 2 --microbatches 4 --page " + page.path());
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(recordings_in(page.text()), 1u);
}

TEST(View, SaysWhatIsWrongWithItsFiles) {
  TemporaryFile page("none.html");
  auto missing = run_bigmac("view no-such-file.json -o " + page.path());
  EXPECT_EQ(missing.exit_code, 2);
  EXPECT_TRUE(contains(missing.err, "no-such-file.json"));
  auto nothing = run_bigmac("view");
  EXPECT_EQ(nothing.exit_code, 2);
  auto nowhere = run_bigmac("view " + kPrimus + " -o /no/such/folder/page.html");
  EXPECT_EQ(nowhere.exit_code, 1);
  EXPECT_TRUE(contains(nowhere.err, "cannot write '/no/such/folder/page.html'"));
  auto iteration = run_bigmac("view " + kPrimus + " --iteration 999 -o " + page.path());
  EXPECT_EQ(iteration.exit_code, 2);
}

TEST(View, RefusesTablesThatDoNotRun) {
  TemporaryFile table("broken.csv"), page("broken.html");
  ASSERT_EQ(run_bigmac("schedule --pp 2 --microbatches 2 --format csv --output " + table.path()).exit_code,
            0);
  auto text = table.text();
  auto last = text.rfind('\n', text.size() - 2);
  {
    FILE* file = fopen(table.path().c_str(), "w");
    fwrite(text.data(), 1, last + 1, file);
    fclose(file);
  }
  auto outcome = run_bigmac("view " + table.path() + " -o " + page.path());
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_TRUE(contains(outcome.err, table.path()));
}
