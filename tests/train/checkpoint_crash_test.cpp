// What a kill and a full disk leave behind, in processes of their own.

#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <iostream>
#include <thread>

#include "bigmac/train/checkpoint_files.h"
#include "tests/support/roles.h"
#include "tests/train/checkpoint_support.h"

namespace bigmac::train {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr int64_t kLarge = 50000;

// A child of this process, which must have no other threads.
pid_t start(const std::function<void()>& body) {
  pid_t child = fork();
  if (child != 0) return child;
  try {
    body();
  } catch (const std::exception& error) {
    std::cerr << error.what() << std::endl;
    _exit(1);
  }
  _exit(0);
}

int status_of(pid_t child) {
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return status;
}

// Seen by all processes.
struct Shared {
  std::atomic<int64_t> begun[4];  // the step whose save a rank begins
  std::atomic<int64_t> whole;     // the last that the first rank has waited for

  static Shared* make() {
    void* memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return memory == MAP_FAILED ? nullptr : new (memory) Shared{};
  }
};

// Saves step after step, at most one ahead of the other ranks, as ranks of one pipeline are.
void save_for_ever(const CheckpointOptions& options, Shared& shared, int rank, int ranks, int64_t step) {
  CheckpointWriter writer(options, rank, ranks);
  for (;; ++step) {
    shared.begun[rank] = step;
    for (int other = 0; other < ranks; ++other)
      while (shared.begun[other] < step - 1) std::this_thread::sleep_for(200us);
    writer.save(step, part_of(contents(step, kLarge), rank, ranks), {{"step", std::to_string(step)}});
    if (step % 3 != 0) continue;
    writer.wait();
    if (rank == 0) shared.whole = step;
  }
}

void kill_at_random(const std::vector<int>& rank_counts, int kills, unsigned seed) {
  TemporaryFolder temporary;
  auto folder = temporary.path() + "/checkpoints";
  Shared* shared = Shared::make();
  ASSERT_TRUE(shared);
  shared->whole = -1;
  std::mt19937 random(seed);
  int64_t newest = -1;
  int with_parts = 0;
  for (int kill = 0; kill < kills; ++kill) {
    int ranks = rank_counts[size_t(kill) % rank_counts.size()];
    int64_t first = std::max<int64_t>(newest, 0);  // writes the newest once more
    for (auto& begun : shared->begun) begun = first - 1;
    std::vector<pid_t> children;
    for (int rank = 0; rank < ranks; ++rank)
      children.push_back(start([&] {
        save_for_ever({folder, 2, uint64_t(kill) + 1, 60s}, *shared, rank, ranks, first);
      }));
    int64_t last = first + int64_t(random() % 7);
    auto deadline = Clock::now() + 120s;
    while (shared->begun[0] < last && Clock::now() < deadline) std::this_thread::sleep_for(200us);
    EXPECT_GE(shared->begun[0], last) << "no progress";
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 40000));
    std::shuffle(children.begin(), children.end(), random);
    for (pid_t child : children) {
      ::kill(child, SIGKILL);
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 4000));
    }
    for (pid_t child : children) {
      int status = status_of(child);
      ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << "it ended by itself";
    }

    auto found = Checkpoint::newest(folder);
    int64_t step = found ? found->step() : -1;
    EXPECT_GE(step, std::max<int64_t>(newest, shared->whole)) << "a whole checkpoint is lost";
    // What begins the save of `last` has come back from that of the step before it, which waited for the one
    // before that.
    EXPECT_GE(step, last > first + 1 ? last - 2 : newest);
    if (!found) continue;
    EXPECT_EQ(wrong_with(*found, kLarge), "") << found->path();
    EXPECT_EQ(found->facts().at("step"), std::to_string(step));
    newest = step;
    for (const auto& [whole_step, path] : whole_checkpoints(folder))
      EXPECT_EQ(wrong_with(Checkpoint::open(path), kLarge), "") << path;
    for (const auto& name : names_in(folder)) with_parts += name.ends_with(".part");
  }
  munmap(shared, sizeof *shared);
  std::cout << kills << " kills, the newest step is " << newest << "; left unfinished: " << with_parts
            << "\n";
  EXPECT_GT(newest, kills / 2) << "hardly anything was written";
  EXPECT_GT(with_parts, 0) << "the kills did not hit the writing";
}

TEST(CheckpointCrash, AWriterKilledAtAnyMomentLeavesTheLastGoodOne) {
  kill_at_random({1}, 30, 1);
}

TEST(CheckpointCrash, TwoRanksKilledAtAnyMomentLeaveTheLastGoodOne) {
  kill_at_random({2}, 30, 2);
}

TEST(CheckpointCrash, SoDoOtherNumbersOfRanksAtEveryStart) {
  kill_at_random({3, 1, 2, 4}, 16, 3);
}

// A checkpoint that fits, one that does not, one that fits again.
void fill_the_disk(const std::string& folder, const std::string& reason) {
  auto require = [](bool holds, const auto&... parts) {
    if (!holds) throw Failure(concat(parts...));
  };
  constexpr int64_t kTooMany = 6 << 20;  // 24 MiB
  for (int ranks : {1, 2}) {
    CheckpointOptions options{folder, 1, uint64_t(ranks), 60s};
    Writers writers(options, ranks);
    int64_t step = int64_t{10} * ranks;
    writers.save(step);
    writers.wait();
    for (int round = 0; round < 2; ++round) {
      writers.save(step + 1 + round, kTooMany);
      for (int rank = 1; rank < ranks; ++rank) thrown<Failure>([&, rank] { writers[rank].wait(); });
      auto message = thrown<Failure>([&] { writers[0].wait(); });
      require(message.find(reason) != message.npos, "it says '", message, "', not ", reason);
      require(message.find(".safetensors") != message.npos, "it says '", message, "', but no file");
      require(ranks > 1 || names_in(folder).size() == 1, "something is left behind");
      auto last = Checkpoint::open(folder);
      require(last.step() == step, "the newest is ", last.step());
      require(wrong_with(last).empty(), "the last good one is damaged: ", wrong_with(last));
    }
    writers.save(step + 3);
    writers.wait();
    auto last = Checkpoint::open(folder);
    require(last.step() == step + 3 && wrong_with(last).empty(), "the disk stays full");
    require(names_in(folder).size() == 1, "something is left behind");
  }
}

TEST(CheckpointCrash, AFullDiskIsAnErrorAndTheLastGoodOneStays) {
  constexpr int kNotPermitted = 77;
  TemporaryFolder temporary;
  int status = status_of(start([&] {
    const auto& disk = temporary.path();
    if (unshare(geteuid() == 0 ? CLONE_NEWNS : CLONE_NEWNS | CLONE_NEWUSER) != 0 ||
        mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        mount("none", disk.c_str(), "tmpfs", 0, "size=8m") != 0)
      _exit(kNotPermitted);
    fill_the_disk(disk + "/checkpoints", "No space left on device");
  }));
  if (WIFEXITED(status) && WEXITSTATUS(status) == kNotPermitted)
    GTEST_SKIP() << "no file system of its own may be mounted here; see AFileThatMayNotGrowIsLikeAFullDisk";
  EXPECT_EQ(status, 0);
}

TEST(CheckpointCrash, AFileThatMayNotGrowIsLikeAFullDisk) {
  TemporaryFolder temporary;
  EXPECT_EQ(status_of(start([&] {
              signal(SIGXFSZ, SIG_IGN);
              rlimit limit{8 << 20, 8 << 20};
              if (setrlimit(RLIMIT_FSIZE, &limit) != 0) throw Failure("no limit can be set");
              fill_the_disk(temporary.path() + "/checkpoints", "File too large");
            })),
            0);
}

}  // namespace
}  // namespace bigmac::train
