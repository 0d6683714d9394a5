#include <gtest/gtest.h>

#include "tests/apps/program.h"

using bigmac::contains;
using bigmac::run_bigmac;
using bigmac::TemporaryFile;

namespace {

class DrawCommand : public testing::Test {
 protected:
  DrawCommand() : trace_("drawn.json.gz"), svg_("drawn.svg"), png_("drawn.png") {
    auto outcome =
        run_bigmac("simulate --pp 2 --vpp 2 --microbatches 4 --encoder 0.5,1 --trace " + trace_.path());
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  }
  TemporaryFile trace_, svg_, png_;
};

TEST_F(DrawCommand, DrawsATraceAsSvgAndPng) {
  auto outcome = run_bigmac("draw " + trace_.path() + " --title Step --path --svg " + svg_.path() +
                            " --png " + png_.path());
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  auto svg = svg_.text();
  for (const char* part : {">Step<", ">rank 1<", "LLM backward", "encoder forward", ">ms<", "critical path"})
    EXPECT_TRUE(contains(svg, part)) << part;
  EXPECT_EQ(png_.text().substr(0, 8), "\x89PNG\r\n\x1a\n");
  auto part = run_bigmac("draw " + trace_.path() + " --from 0 --to 0.003 --svg " + svg_.path());
  EXPECT_EQ(part.exit_code, 0) << part.err;
  EXPECT_LT(svg_.text().size(), svg.size());
}

TEST_F(DrawCommand, WritesATraceAndPutsTheSteadyStateTogether) {
  TemporaryFile long_step("long.json.gz"), all("all.json"), merged("merged.json");
  auto made = run_bigmac("simulate --pp 4 --microbatches 400 --trace " + long_step.path());
  ASSERT_EQ(made.exit_code, 0) << made.err;
  for (auto [file, most] : {std::pair(&all, "0"), {&merged, "1000"}}) {
    auto outcome = run_bigmac("draw " + long_step.path() + " --trace " + file->path() + " --most " + most);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    EXPECT_TRUE(contains(outcome.out, "trace: " + file->path())) << outcome.out;
  }
  EXPECT_FALSE(contains(all.text(), "\"merged\""));
  EXPECT_LT(merged.text().size(), all.text().size() / 2);
  auto again = run_bigmac("report " + merged.path());
  EXPECT_EQ(again.exit_code, 0) << again.err;
  EXPECT_TRUE(contains(again.out + again.err, "in the middle of the step were put together")) << again.out;
  auto refused = run_bigmac("replay " + merged.path());
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_TRUE(contains(refused.err, "bigmac draw --trace --most 0 writes all")) << refused.err;
}

TEST_F(DrawCommand, PrintsTheTableWhereNoPictureIsAskedFor) {
  auto outcome = run_bigmac("draw " + trace_.path());
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_TRUE(contains(outcome.out, "rank 0 |EF")) << outcome.out;
  EXPECT_TRUE(contains(outcome.out, "rank 1 |EF")) << outcome.out;
}

TEST_F(DrawCommand, NamesWhatIsWrong) {
  auto error = [&](const std::string& arguments) {
    auto outcome = run_bigmac("draw " + arguments);
    EXPECT_EQ(outcome.exit_code, 2) << arguments;
    return outcome.err;
  };
  EXPECT_TRUE(contains(error(trace_.path() + " --from 0 --to 9 --svg " + svg_.path()),
                       "[picture] from 0 to 9 is no part of a step of"));
  EXPECT_TRUE(contains(error(trace_.path() + " --from x --svg " + svg_.path()),
                       "--from must be a number, as 0.25, got 'x'"));
  EXPECT_TRUE(contains(error(trace_.path() + " --width 50 --svg " + svg_.path()),
                       "--width must be from 200 to 20000, got '50'"));
  EXPECT_TRUE(contains(error("no-such-file.json"), "no-such-file.json"));
  EXPECT_EQ(run_bigmac("draw " + trace_.path() + " --svg /no/such/folder/x.svg").exit_code, 1);
}

}  // namespace
