#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/apps/workload_files.h"

namespace bigmac {
namespace {

using nlohmann::json;

json compare(const std::string& arguments) {
  auto outcome = run_bigmac("compare --json " + kSmall + " " + arguments);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  return json::parse(outcome.out);
}

const std::vector<std::string> kSystems{"megatron", "disttrain", "three-phase",
                                        "optimus",  "nested",    "nested-fill"};

TEST(CompareCommand, ComparesEverySystemAtEveryBatch) {
  auto report = compare("");
  EXPECT_EQ(report["workload"], "small");
  ASSERT_EQ(report["batches"].size(), 3u);
  int64_t expected[] = {4, 8, 16};
  for (size_t n = 0; n < 3; ++n) {
    EXPECT_EQ(report["batches"][n]["samples_per_gpu"], expected[n]);
    std::vector<std::string> systems;
    for (const auto& one : report["batches"][n]["systems"]) {
      systems.push_back(one["schedule"]);
      EXPECT_EQ(one["best"]["configuration"]["schedule"], one["schedule"]);
      EXPECT_LE(one["best"]["memory"], report["memory_limit"]);
    }
    EXPECT_EQ(systems, kSystems);
  }
}

TEST(CompareCommand, FindsWhatPlanFindsForASystem) {
  auto report = compare("--schedule optimus,nested --samples-per-gpu 8");
  for (const auto& one : report["batches"][0]["systems"]) {
    auto outcome = run_bigmac("plan --json --samples-per-gpu 8 --base 1f1b,interleaved --schedule " +
                              one["schedule"].get<std::string>() + " " + kSmall);
    EXPECT_EQ(json::parse(outcome.out)["best"][0]["step"], one["best"]["step"]);
  }
}

TEST(CompareCommand, PrintsSpeedAndMemoryOverBatchesThenEachBatch) {
  auto outcome = run_bigmac("compare " + kSmall);
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.err, "");
  EXPECT_EQ(outcome.out.find("small on 8 A100 of 40.0 GiB\n\n"
                             "speed-up of nested-fill over each: the system's step over that of nested-fill\n"
                             "samples a GPU     4     8    16\n"
                             "megatron "),
            0u);
  EXPECT_TRUE(
      contains(outcome.out, "\nnested-fill    1.00  1.00  1.00\n\npeak memory of the fullest GPU, GiB\n"));
  for (const char* batch :
       {"\n4 samples a GPU, 32 in a step\nschedule ", "\n16 samples a GPU, 128 in a step\nschedule "})
    EXPECT_TRUE(contains(outcome.out, batch));
}

TEST(CompareCommand, NamesTheSpeedUpOfTheLastSystemAskedFor) {
  auto out = run_bigmac("compare --samples-per-gpu 4 --schedule optimus,nested " + kSmall).out;
  EXPECT_TRUE(contains(out, "\nspeed-up  of nested: the system's step over that of nested\n"));
  EXPECT_FALSE(contains(out, "disttrain"));
}

TEST(CompareCommand, SaysWhyASystemRunsOutOfMemory) {
  auto outcome =
      run_bigmac("compare --samples-per-gpu 64 --memory 7000MiB --schedule three-phase,nested " + kSmall);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_TRUE(contains(outcome.out, "\nthree-phase      OOM "));
  EXPECT_TRUE(contains(outcome.out, "\nthree-phase: out of memory on rank "));
  EXPECT_TRUE(contains(outcome.out, " GiB of 6.84 GiB"));
}

TEST(CompareCommand, SaysWhyNoConfigurationOfASystemIsLegal) {
  auto outcome =
      run_bigmac("compare --samples-per-gpu 4 --base interleaved --schedule disttrain,nested " + kSmall);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_TRUE(contains(outcome.out, "\ndisttrain      none"));
  EXPECT_TRUE(contains(outcome.out, "\ndisttrain: [plan] no configuration of 'small' is legal: "));
}

TEST(CompareCommand, EndsWithOneWhereNothingFitsAtAll) {
  auto outcome = run_bigmac("compare --memory 3GiB --samples-per-gpu 4 --schedule nested " + kSmall);
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(outcome.err, "bigmac: error: no configuration of any system fits into memory\n");
  EXPECT_TRUE(contains(outcome.out, " of 3.00 GiB"));
}

TEST(CompareCommand, RefusesASearchThatLeavesNoSystem) {
  expect_wrong(
      "compare --schedule llm-only " + kSmall,
      "--schedule: llm-only leaves out the workload's encoders and generators; nothing is left to compare");
}

TEST(CompareCommand, ComparesTheLlmAloneWhereThereIsNothingElse) {
  auto text = text_of(kSmall);
  auto encoders = text.find("encoders:"), cluster = text.find("cluster:");
  WrittenFile file("llm.yaml", text.erase(encoders, cluster - encoders));
  auto outcome = run_bigmac({"compare", "--samples-per-gpu", "4", file.path()});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_TRUE(contains(outcome.out, "\nllm-only "));
}

TEST(CompareCommand, DrawsBothKindsOfPicture) {
  TemporaryFile svg("compare.svg"), png("compare.png");
  auto outcome = run_bigmac("compare --schedule optimus,nested --picture " + svg.path() + " --picture " +
                            png.path() + " " + kSmall);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  for (const char* part : {"<svg", "optimus", "nested", "tokens / s / GPU", "limit 40.0 GiB"})
    EXPECT_TRUE(contains(svg.text(), part));
  EXPECT_EQ(png.text().substr(1, 3), "PNG");
}

TEST(CompareCommand, RefusesPicturesOfOtherKindsAndPlaces) {
  for (const std::string path : {"x.pdf", "x", "x.svg.gz", ""})
    expect_wrong({"compare", kSmall, "--picture", path},
                 "--picture must end with .svg or .png, got '" + path + "'");
  auto outcome = run_bigmac("compare --picture /nonexistent/x.png " + kSmall);
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(outcome.out, "");
  EXPECT_EQ(outcome.err, "bigmac: error: cannot write '/nonexistent/x.png': No such file or directory\n");
}

TEST(CompareCommand, RefusesABatchThatIsThereTwice) {
  expect_wrong("compare --samples-per-gpu 4,8,4 " + kSmall, "--samples-per-gpu has '4' twice");
  for (const char* value : {"0", "-1", "x", "4,", ""})
    EXPECT_EQ(run_bigmac({"compare", kSmall, "--samples-per-gpu", value}).exit_code, 2) << value;
}

TEST(CompareCommand, ShowsABarOnATerminal) {
  auto outcome = run_bigmac("compare --samples-per-gpu 4 --schedule nested " + kSmall, {Stdout::terminal});
  EXPECT_TRUE(contains(outcome.out, "compare ######################## 1/1  systems and batches"));
}

}  // namespace
}  // namespace bigmac
