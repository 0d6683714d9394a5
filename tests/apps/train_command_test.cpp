#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "tests/apps/program.h"

using bigmac::contains;
using bigmac::run_bigmac;
using bigmac::TemporaryFile;

namespace {

namespace fs = std::filesystem;

constexpr char kSmall[] = R"(
encoder: {picture: 16, patch: 4, hidden: 16, layers: 1, heads: 2, ffn: 24}
backbone: {hidden: 24, layers: 8, heads: 2, kv_heads: 1, head_dim: 12, ffn: 32}
generator: {patch: 4, hidden: 16, layers: 1, heads: 2, ffn: 24}
parallel: {pp: 2, vpp: 2, microbatches: 4}
batch: {samples: 2}
dtype: float64
)";

std::string read(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

class TrainCommand : public testing::Test {
 protected:
  TrainCommand() {
    std::string pattern = (fs::temp_directory_path() / "bigmac-XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
    write_config(kSmall);
  }
  ~TrainCommand() override { fs::remove_all(folder_); }

  void SetUp() override {
    if (!fs::exists("/usr/share/fonts/truetype/noto/NotoColorEmoji.ttf") ||
        !fs::exists("/usr/share/unicode/emoji/emoji-test.txt"))
      GTEST_SKIP() << "needs the packages fonts-noto-color-emoji and unicode-data";
  }

  void write_config(const std::string& text) { std::ofstream(config()) << text; }
  std::string config() const { return folder_ / "run.yaml"; }
  fs::path output() const { return folder_ / "out"; }
  std::string command(const std::string& options) const {
    return "train " + config() + " --output " + output().string() + " " + options;
  }
  std::vector<double> losses() const {
    std::vector<double> losses;
    std::istringstream lines(read(output() / "metrics.jsonl"));
    for (std::string line; std::getline(lines, line);)
      losses.push_back(nlohmann::json::parse(line).at("loss"));
    return losses;
  }

  fs::path folder_;
};

// The process of a rank of the program that writes into this folder.
pid_t find_rank(const std::string& rank, const std::string& folder) {
  for (const auto& entry : fs::directory_iterator("/proc")) {
    auto name = entry.path().filename().string();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    if (read(entry.path() / "cmdline").find(folder) == std::string::npos) continue;
    auto environment = std::string(1, '\0') + read(entry.path() / "environ");
    if (environment.find(std::string(1, '\0') + "RANK=" + rank + std::string(1, '\0')) != std::string::npos)
      return std::stoi(name);
  }
  return 0;
}

}  // namespace

TEST_F(TrainCommand, LearnsTheSameOnOneRankOnThreadsAndOnProcesses) {
  std::vector<std::vector<double>> all;
  for (const auto* options :
       {"--steps 3 --pp 1 --vpp 1", "--steps 3", "--steps 3 --ranks-as processes",
        "--steps 3 --schedule three-phase", "--steps 3 --pp 4 --vpp 1", "--steps 3 --order balanced",
        "--steps 3 --generator-unit 1", "--steps 3 --base zb-v", "--steps 3 --pp 3 --schedule optimus",
        "--steps 3 --dp 2 --microbatches 2 --vpp 1 --shard drawing=states"}) {
    auto outcome = run_bigmac(command(options));
    ASSERT_EQ(outcome.exit_code, 0) << options << outcome.err;
    EXPECT_EQ(outcome.err, "");
    all.push_back(losses());
    ASSERT_EQ(all.back().size(), 3u);
    for (size_t step = 0; step < 3; ++step) EXPECT_NEAR(all.back()[step], all[0][step], 1e-9) << options;
  }
}

TEST_F(TrainCommand, SaysWhereItsFilesLieAndSampleReadsThem) {
  auto outcome = run_bigmac(command("--steps 2 --seed 5"));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  for (const auto* name : {"weights.safetensors", "schedule.csv", "trace.json", "metrics.jsonl"}) {
    EXPECT_TRUE(contains(outcome.out, (output() / name).string()));
    EXPECT_GT(fs::file_size(output() / name), 0u) << name;
  }
  EXPECT_TRUE(contains(read(output() / "schedule.csv"), "\nrank,position,module,operator,chunk,microbatch,"));
  auto checked = run_bigmac("check " + (output() / "schedule.csv").string());
  EXPECT_EQ(checked.exit_code, 0) << checked.err;
  auto trace = nlohmann::json::parse(read(output() / "trace.json"));
  EXPECT_GT(trace.at("traceEvents").size(), 4u * 4);
  auto metrics = nlohmann::json::parse(
      read(output() / "metrics.jsonl").substr(0, read(output() / "metrics.jsonl").find('\n')));
  for (const auto* key : {"step", "loss", "losses", "gradient_norm", "learning_rate", "seconds", "samples"})
    EXPECT_TRUE(metrics.contains(key)) << key;
  EXPECT_NEAR(metrics["losses"].at("text").get<double>() + metrics["losses"].at("drawing").get<double>(),
              metrics["loss"].get<double>(), 1e-9);

  auto sampled = run_bigmac("sample " + (output() / "weights.safetensors").string() +
                            " --judged 4 --captions 3 --pictures 2 --steps 2 --json");
  ASSERT_EQ(sampled.exit_code, 0) << sampled.err;
  auto json = nlohmann::json::parse(sampled.out);
  EXPECT_EQ(json.at("said").size(), 4u);
  EXPECT_TRUE(fs::exists(json.at("grid").get<std::string>()));
}

TEST_F(TrainCommand, GoesOnWhereItStoppedOnAnotherNumberOfRanksWithTheSameLosses) {
  auto kept = " --checkpoints " + (folder_ / "kept").string() + " --checkpoint-every 2 --resume";
  // In the warm-up the learning rate does not depend on the steps to come.
  write_config(std::string(kSmall) + "optimizer: {warmup_steps: 100}\n");
  ASSERT_EQ(run_bigmac(command("--steps 6")).exit_code, 0);
  auto undisturbed = losses();
  ASSERT_EQ(run_bigmac(command("--steps 4" + kept)).exit_code, 0);
  EXPECT_EQ(losses(), std::vector<double>(undisturbed.begin(), undisturbed.begin() + 4));
  auto outcome = run_bigmac(command("--steps 6 --pp 1 --vpp 1" + kept));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_TRUE(contains(outcome.err, "goes on behind step 4"));
  EXPECT_TRUE(contains(outcome.out, "\n2 steps of 8 items"));
  auto resumed = losses();
  ASSERT_EQ(resumed.size(), 6u);
  for (size_t step = 0; step < 6; ++step) EXPECT_NEAR(resumed[step], undisturbed[step], 1e-9) << step;
  auto done = run_bigmac(command("--steps 6" + kept));  // nothing is left to train
  ASSERT_EQ(done.exit_code, 0) << done.err;
  EXPECT_EQ(losses(), resumed);
}

TEST_F(TrainCommand, ShowsTheFirstReplicasPipeline) {
  auto outcome = run_bigmac(command("--steps 1 --dp 2 --microbatches 2 --vpp 1"));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_TRUE(contains(outcome.out, "P=2 V=1 M=2, base 1f1b, first of 2 replicas: one step in ms"));
  EXPECT_TRUE(contains(outcome.out, "1 steps of 8 items"));
  EXPECT_TRUE(contains(outcome.out, "vision units  drawing units"));
}

TEST_F(TrainCommand, NamesTheRankThatWasKilledAndStopsWithinTenSeconds) {
  using Clock = std::chrono::steady_clock;
  std::thread killer;
  Clock::time_point killed;
  killer = std::thread([&] {
    auto until = Clock::now() + std::chrono::seconds(60);
    while (Clock::now() < until && read(output() / "metrics.jsonl").empty())
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    killed = Clock::now();
    if (pid_t pid = find_rank("2", output().string()); pid > 0) kill(pid, SIGKILL);
  });
  auto outcome = run_bigmac(command("--steps 100000 --pp 4 --ranks-as processes"));
  auto ended = Clock::now();
  killer.join();
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_TRUE(contains(outcome.err, "bigmac: error: rank 2: killed by signal 9 (Killed)"));
  for (const auto* rank : {"0", "1", "3"})
    EXPECT_TRUE(contains(outcome.err,
                         std::string("bigmac: error: rank ") + rank + " stops: rank 2: killed by signal 9"));
  EXPECT_LT(std::chrono::duration<double>(ended - killed).count(), 10);
  for (const auto* rank : {"0", "1", "3"}) EXPECT_EQ(find_rank(rank, output().string()), 0);
}

TEST_F(TrainCommand, NamesAPortThatIsInUse) {
  int socket_ = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(bind(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  ASSERT_EQ(listen(socket_, 1), 0);
  socklen_t length = sizeof address;
  getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &length);
  auto port = std::to_string(ntohs(address.sin_port));
  auto outcome =
      run_bigmac(command("--steps 1"),
                 {bigmac::Stdout::pipe,
                  {{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "127.0.0.1"}, {"MASTER_PORT", port}}});
  close(socket_);
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_TRUE(contains(outcome.err, "cannot listen on port " + port));
}

TEST_F(TrainCommand, RefusesAnEnvironmentWithAnotherNumberOfRanks) {
  auto outcome = run_bigmac(
      command("--steps 1"),
      {bigmac::Stdout::pipe,
       {{"RANK", "0"}, {"WORLD_SIZE", "3"}, {"MASTER_ADDR", "127.0.0.1"}, {"MASTER_PORT", "29555"}}});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_TRUE(
      contains(outcome.err, "torchrun started 3 ranks, but pp 2 and dp 1 take 2; start a multiple of 2"));
}

TEST_F(TrainCommand, RefusesWrongInputWithItsPlace) {
  auto refused = [&](const std::string& options, const std::string& part) {
    auto outcome = run_bigmac(command(options));
    EXPECT_EQ(outcome.exit_code, 2) << options;
    EXPECT_EQ(outcome.out, "");
    EXPECT_TRUE(contains(outcome.err, part));
  };
  refused("--base zb-h1", "[zb-h1] holds one chunk a rank, got P=2 V=2 M=4");
  refused("--base zbh1", "did you mean 'zb-h1'?");
  refused("--generator-unit 3", "the generator's unit (k) must be from 1 to P");
  refused("--order balancd", "did you mean 'balanced'?");
  refused("--shard visoin=states", "did you mean 'vision'?");
  refused("--freeze visoin.*", "matches no parameter");
  refused("--resume", "resume needs the folder");
  refused("--device gpu", "device must be cpu");
  refused("--pp 0", "--pp must be a whole number from 1");
  refused("--steps -1", "--steps must be a whole number from 0");
  refused("--schedule nestd", "did you mean 'nested'?");
  refused("--ranks-as thread", "did you mean 'threads'?");
  refused("--stepz 3", "did you mean");
  write_config("parallel: {pp: 2\n");
  refused("", "run.yaml:2:");
  write_config("data: {font: /nowhere/font.ttf}\n");
  refused("", "/nowhere/font.ttf");
  auto missing = run_bigmac("train /nowhere/run.yaml");
  EXPECT_EQ(missing.exit_code, 2);
  EXPECT_TRUE(contains(missing.err, "cannot read '/nowhere/run.yaml'"));
}

TEST_F(TrainCommand, FailsWhereItCannotWrite) {
  auto outcome = run_bigmac("train " + config() + " --output /dev/null/out");
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_TRUE(contains(outcome.err, "/dev/null/out"));
}

TEST(SampleCommand, RefusesWhatAreNoWeights) {
  auto missing = run_bigmac("sample /nowhere/weights.safetensors");
  EXPECT_EQ(missing.exit_code, 2);
  EXPECT_TRUE(contains(missing.err, "/nowhere/weights.safetensors"));
  TemporaryFile file("weights.safetensors");
  std::ofstream(file.path()) << "abc";
  auto cut = run_bigmac("sample " + file.path());
  EXPECT_EQ(cut.exit_code, 2);
  EXPECT_TRUE(contains(cut.err, file.path()));
}
