#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "bigmac/common/error.h"
#include "tests/apps/traced.h"

using bigmac::concat;
using bigmac::contains;
using bigmac::run_bigmac;
using bigmac::TemporaryFile;
using bigmac::Traced;
using nlohmann::json;

namespace {

const std::string kPrimus = BIGMAC_SHARED_DATA "/primus-pp8";

json replay(const std::string& arguments) {
  auto outcome = run_bigmac("replay --json " + arguments);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  return json::parse(outcome.out);
}

const std::string kNested = "--pp 4 --vpp 2 --microbatches 8 --encoder 0.5,1 --generator 2,4 ";

// Two ranks that have run 2 microbatches of 1F1B in two iterations, as Primus dumps them.
class Dump {
 public:
  Dump() : folder_(std::filesystem::temp_directory_path() / concat("bigmac_replay_", getpid())) {
    std::filesystem::create_directories(folder_);
    write(0, {0, 10}, {10, 20}, {50, 80}, {70, 100});
    write(1, {10, 40}, {20, 50}, {20, 50}, {40, 70});
  }
  ~Dump() { std::filesystem::remove_all(folder_); }
  Dump(const Dump&) = delete;
  Dump& operator=(const Dump&) = delete;

  std::string path() const { return folder_.string(); }

 private:
  void write(int rank, const std::vector<double>& fwd_start, const std::vector<double>& fwd_end,
             const std::vector<double>& bwd_start, const std::vector<double>& bwd_end) const {
    json iteration{{"total", 101},       {"memory", 30},           {"fwd_start", fwd_start},
                   {"fwd_end", fwd_end}, {"bwd_start", bwd_start}, {"bwd_end", bwd_end}};
    std::ofstream(folder_ / concat("pp_rank_", rank, ".json")) << json{{"3", iteration}, {"4", iteration}};
  }

  std::filesystem::path folder_;
};

}  // namespace

TEST(ReplayCommand, FindsTheStepAndTheCostsOfATraceOfOurOwn) {
  for (std::string options :
       {"--pp 4 --microbatches 8", "--pp 4 --vpp 2 --microbatches 8 --base zb-v", kNested.c_str(),
        "--pp 4 --vpp 2 --microbatches 8 --encoder 0.5,1 --items random:3,1 --schedule nested-fill"}) {
    Traced trace(options);
    auto found = replay(trace.path());
    EXPECT_NEAR(found["measured"], trace.makespan() * 1e-3, 1e-9) << options;
    EXPECT_NEAR(found["replay"]["each"]["error"], 0, 1e-9) << options;
    for (const auto& stage : found["stages"]) {
      if (stage["operator"] != "F") continue;
      EXPECT_NEAR(stage["mean"], 1e-3, 1e-9) << options;
    }
    EXPECT_EQ(found["clocks"]["conflicts"], 0);
    EXPECT_EQ(found["ranks"], 4);
    EXPECT_EQ(found["microbatches"], 8);
  }
}

// What the simulator says of the other schedule with the same costs.
TEST(ReplayCommand, TellsWhatAnotherScheduleTakes) {
  Traced nested(kNested, "nested.json"), llm("--pp 4 --microbatches 8", "llm.json");
  auto simulated = [](const std::string& options) {
    return json::parse(run_bigmac("simulate --json " + options).out)["makespan"].get<double>() * 1e-3;
  };
  auto other = [](const Traced& trace, const std::string& options) {
    return replay(trace.path() + " " + options)["other"];
  };
  EXPECT_NEAR(other(nested, "--schedule three-phase")["step"], simulated(kNested + "--schedule three-phase"),
              1e-9);
  EXPECT_NEAR(other(nested, "--schedule nested-fill")["step"], simulated(kNested + "--schedule nested-fill"),
              1e-9);
  EXPECT_NEAR(other(nested, "--schedule llm-only")["step"], simulated("--pp 4 --vpp 2 --microbatches 8"),
              1e-9);
  EXPECT_NEAR(other(llm, "--base zb-h1")["step"], simulated("--pp 4 --microbatches 8 --base zb-h1"), 1e-9);
  EXPECT_NEAR(other(llm, "--vpp 2")["step"], simulated("--pp 4 --vpp 2 --microbatches 8 --backbone 0.5,1"),
              1e-9);
  EXPECT_NEAR(other(llm, "--microbatches 32")["step"], simulated("--pp 4 --microbatches 32"), 1e-9);
  EXPECT_NEAR(other(llm, "--base gpipe --latency 0.5")["step"],
              simulated("--pp 4 --microbatches 8 --base gpipe --latency 0.5"), 1e-9);
  EXPECT_EQ(other(llm, "--microbatches 32")["statistic"], "mean");
  EXPECT_EQ(other(llm, "--base gpipe")["statistic"], "each");
  EXPECT_FALSE(replay(llm.path()).contains("other"));
}

TEST(ReplayCommand, ReadsADumpOfPrimus) {
  Dump dump;
  auto outcome = run_bigmac("replay " + dump.path());
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  for (const char* part :
       {"Primus pipeline dump ", "P=2 V=1 M=2, 8 operators, in the order of 1f1b\n", "measured step   101.0",
        "replay, each     90.0  -10.89 %", "closed form      90.0  -10.89 %", "iteration  measured ms",
        "iteration 4 has the median step", "idle/total 40.59 %",
        "critical path: 80.0 ms in operators, 10.0 between operators of a rank, 10.0 from rank to rank"})
    EXPECT_TRUE(contains(outcome.out, part));
  outcome = run_bigmac("replay --iteration 3 " + dump.path());
  EXPECT_FALSE(contains(outcome.out, "iteration  measured ms")) << outcome.out;
  EXPECT_TRUE(contains(outcome.out, "costs by stage in ms, iteration 3"));
  outcome = run_bigmac("replay --iteration 9 " + dump.path());
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_TRUE(contains(outcome.err, "has no iteration '9': it holds 2, from 3 to 4"));
}

TEST(ReplayCommand, WritesATraceThatItReadsAgainAndAPicture) {
  Traced trace(kNested);
  TemporaryFile written("replayed.json"), picture("replayed.svg");
  auto first = replay(trace.path() + " --trace " + written.path() + " --picture " + picture.path());
  EXPECT_NEAR(replay(written.path())["measured"], first["measured"], 1e-9);
  EXPECT_TRUE(contains(picture.text(), "<svg"));
  EXPECT_TRUE(contains(picture.text(), "ms"));
  auto outcome = run_bigmac("replay " + trace.path() + " --schedule llm-only --trace " + written.path());
  EXPECT_TRUE(contains(outcome.out, "trace: " + written.path()));
  EXPECT_FALSE(contains(written.text(), "encoder"));
}

TEST(ReplayCommand, ExplainsTheReplay) {
  Traced trace("--pp 4 --microbatches 8");
  auto outcome = run_bigmac("replay " + trace.path() + " --explain 1");
  EXPECT_TRUE(contains(outcome.out, "the replay, in ms:\ncritical path, "));
  EXPECT_TRUE(contains(outcome.out, "longest waits, at most 1 a rank"));
  EXPECT_TRUE(replay(trace.path() + " --explain")["explain"].contains("waits"));
}

TEST(ReplayCommand, RefusesWrongInputWithCode2) {
  Traced trace("--pp 4 --microbatches 8");
  struct Case {
    std::string arguments, told;
  };
  for (const auto& [arguments, told] :
       {Case{"", "PATH"}, Case{"/nonexistent", "cannot read '/nonexistent': No such file"},
        Case{trace.path() + " --vpp 0", "--vpp must be a whole number from 1"},
        Case{trace.path() + " --base zb-v", "[zb-v] holds two chunks a rank"},
        Case{trace.path() + " --base zbv", "did you mean 'zb-v'"},
        Case{trace.path() + " --statistic average", "--statistic: unknown statistic 'average'"},
        Case{trace.path() + " --latency -1", "--latency must be a number from 0"},
        Case{trace.path() + " --iteration 3", "has no iteration '3': it holds one step without a number"},
        Case{trace.path() + " --schedul nested", "did you mean '--schedule'"},
        Case{"/dev", "/dev holds no .json"}}) {
    auto outcome = run_bigmac("replay " + arguments);
    EXPECT_EQ(outcome.exit_code, 2) << arguments;
    EXPECT_EQ(outcome.out, "") << arguments;
    EXPECT_TRUE(contains(outcome.err, told)) << arguments;
  }
  TemporaryFile text("text.json");
  std::ofstream(text.path()) << "{\"traceEvents\":[{\"name\":\"aten::mm\",\"ph\":\"X\",\"ts\":1,\"dur\":1}]}";
  auto outcome = run_bigmac("replay " + text.path());
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_TRUE(contains(outcome.err, "none of its 1 events is named as an operator"));
}

TEST(ReplayCommand, TellsItsOptionsAndExamples) {
  auto outcome = run_bigmac("replay --help");
  EXPECT_EQ(outcome.exit_code, 0);
  for (const char* part :
       {"\n  --iteration,--step N", "\n  --measured-vpp N", "\n  --statistic each|mean|median",
        "\n  --latency MS", "\n  --json", "Examples:", "bigmac replay runs/pp8"})
    EXPECT_TRUE(contains(outcome.out, part));
}

TEST(ReplayCommand, IsWithin1Point5PercentOfPrimusPp8) {
  if (!std::filesystem::is_directory(kPrimus)) GTEST_SKIP() << "no data folder " << kPrimus;
  auto found = replay("--iteration 7 " + kPrimus);
  EXPECT_NEAR(found["measured"], 3.2379, 5e-5);
  EXPECT_NEAR(found["replay"]["each"]["step"], 3.2043, 5e-5);
  EXPECT_NEAR(found["replay"]["each"]["error"], -0.0104, 5e-5);
  EXPECT_NEAR(found["closed_form"]["error"], -0.072, 5e-4);
  EXPECT_LT(found["memory_all_ranks"]["largest_error"], 0.025);
  EXPECT_EQ(found["memory"]["ranks"][0]["in_flight"], 8);
  auto all = replay(kPrimus);
  ASSERT_EQ(all["iterations"].size(), 20u);
  for (size_t n = 1; n < 20; ++n)
    EXPECT_LT(std::abs(all["iterations"][n]["replay"]["each"]["error"].get<double>()), 0.015);
}
