#include <gtest/gtest.h>

#include "tests/apps/workload_files.h"

namespace bigmac {
namespace {

std::string help_of(const std::string& command) {
  auto outcome = run_bigmac(command + " --help");
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.err, "");
  return outcome.out;
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
  return text;
}

TEST(PlanHelp, NamesEveryOption) {
  for (const std::string command : {"plan", "compare"})
    for (const char* option :
         {"WORKLOAD FILE", "--gpus N", "--memory BYTES", "--hardware H800|H100|H200|A100",
          "--schedule NAME,...", "--base NAME,...", "--tp N,...", "--pp N,...", "--vpp N,...", "--ep N,...",
          "--microbatch N,...", "--warmup-units N,...", "--recompute [NAME=]LEVEL,...", "--threads N",
          "--samples-per-gpu N", "--json", "--picture FILE"})
      EXPECT_TRUE(contains(help_of(command), std::string("\n  ") + option));
  for (const char* option : {"--best N", "--frontier N", "--trace FILE"})
    EXPECT_TRUE(contains(help_of("plan"), std::string("\n  ") + option));
  for (const char* option : {"CONFIG FILE", "--tower whole|text|vision|audio", "--tokens N", "--text N",
                             "--sequences N", "--tp N", "--dp N", "--ep N", "--recompute none|selective|full",
                             "--frozen", "--hardware H800|H100|H200|A100", "--json"})
    EXPECT_TRUE(contains(help_of("estimate"), std::string("\n  ") + option));
}

TEST(PlanHelp, FitsIntoAHundredColumns) {
  for (const char* command : {"plan", "compare", "estimate"}) {
    std::istringstream lines(help_of(command));
    for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 100u) << line;
  }
}

// Those that take less than a second.
TEST(PlanHelp, HasExamplesThatRun) {
  TemporaryFile svg("help.svg"), trace("help.json");
  int ran = 0;
  for (const char* command : {"plan", "compare", "estimate"}) {
    std::istringstream lines(help_of(command));
    for (std::string line; std::getline(lines, line);) {
      bool quick = contains(line, "workloads/small.yaml") || contains(line, "workloads/models/");
      if (line.find("    bigmac ") != 0 || !quick) continue;
      line = replaced(line.substr(11), "workloads/", BIGMAC_SOURCE_DIR "/workloads/");
      line = replaced(replaced(line, "step.svg", svg.path()), "step.json", trace.path());
      auto outcome = run_bigmac(line);
      EXPECT_EQ(outcome.exit_code, 0) << line << "\n" << outcome.err;
      EXPECT_EQ(outcome.err, "") << line;
      ++ran;
    }
  }
  EXPECT_EQ(ran, 9);
}

}  // namespace
}  // namespace bigmac
