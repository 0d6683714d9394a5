// The ranks on two hosts: network namespaces joined by a cable (scripts/two-hosts).

#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <thread>

#include "bigmac/common/error.h"
#include "bigmac/runtime/recorder.h"
#include "tests/runtime/processes.h"
#include "tests/support/roles.h"
#include "tests/train/training_role.h"

namespace bigmac::train {
namespace {

constexpr int kNotPermitted = 77;
constexpr double kMostSeconds = 10;

// The role "training" on two hosts of two ranks.
class TwoHosts {
 public:
  TwoHosts(const std::string& folder, const std::vector<std::string>& settings = {}) {
    auto self = std::filesystem::read_symlink("/proc/self/exe").string();
    std::vector<std::string> words{"env", "BIGMAC_TEST_ROLE=training", "BIGMAC_TEST_FOLDER=" + folder};
    words.insert(words.end(), settings.begin(), settings.end());
    words.insert(words.end(), {BIGMAC_SOURCE_DIR "/scripts/two-hosts", self});
    std::vector<char*> pointers;
    for (auto& word : words) pointers.push_back(word.data());
    pointers.push_back(nullptr);
    if (posix_spawnp(&pid_, "env", nullptr, nullptr, pointers.data(), environ) != 0)
      throw Failure("cannot start scripts/two-hosts");
  }
  TwoHosts(const TwoHosts&) = delete;
  ~TwoHosts() {
    if (pid_ <= 0) return;
    kill(pid_, SIGTERM);
    waitpid(pid_, nullptr, 0);
  }
  std::string host(char letter) const { return concat("bigmac-", letter, "-", pid_); }
  bool has_ended() {
    if (pid_ > 0 && waitpid(pid_, &status_, WNOHANG) == pid_) pid_ = 0;
    return pid_ == 0;
  }
  // The exit code, or -1 where it takes longer.
  int wait(double seconds) {
    for (double start = now(); !has_ended() && now() - start < seconds;)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    return pid_ == 0 && WIFEXITED(status_) ? WEXITSTATUS(status_) : -1;
  }

 private:
  pid_t pid_ = 0;
  int status_ = 0;
};

std::vector<std::string> namespaces() {
  std::vector<std::string> names;
  std::error_code none;
  for (std::filesystem::directory_iterator entry("/run/netns", none), end; !none && entry != end;
       entry.increment(none))
    if (auto name = entry->path().filename().string(); name.starts_with("bigmac-")) names.push_back(name);
  std::sort(names.begin(), names.end());
  return names;
}

// Others may come and go meanwhile.
bool nothing_is_left_behind(const std::vector<std::string>& before) {
  for (double start = now(); now() - start < 10; std::this_thread::sleep_for(std::chrono::milliseconds(50))) {
    auto after = namespaces();
    if (std::includes(before.begin(), before.end(), after.begin(), after.end())) return true;
  }
  return false;
}

// Names the hosts differently and chooses the interface.
class Settings : public testing::TestWithParam<std::vector<std::string>> {};

TEST_P(Settings, TheSameRunOnTwoHostsHasTheLossesOfOneHostBitForBit) {
  BIGMAC_NEEDS_PROCESSES();
  auto before = namespaces();
  TemporaryFolder one, two;
  int code = TwoHosts(two.path(), GetParam()).wait(200);
  if (code == kNotPermitted) GTEST_SKIP() << "no network namespaces may be made here";
  ASSERT_EQ(code, 0);
  roles::run("training", kRanks, one.path());
  EXPECT_EQ(losses_of(two.path()).size(), size_t(kSteps));
  EXPECT_EQ(losses_of(two.path()), losses_of(one.path()));
  EXPECT_TRUE(nothing_is_left_behind(before));
}

INSTANTIATE_TEST_SUITE_P(
    Hosts, Settings,
    testing::Values(std::vector<std::string>{},                 // they meet at an address
                    std::vector<std::string>{"MASTER=host-a"},  // which host-a itself takes for 127.0.1.1
                    std::vector<std::string>{"GLOO_SOCKET_IFNAME=eth0"}),
    [](const auto& setting) {
      return setting.index == 0 ? "ByAddress" : setting.index == 1 ? "ByName" : "ByInterface";
    });

// Until the run has taken so many steps; false where there are no namespaces.
bool wait_for_steps(TwoHosts& hosts, const std::string& folder, int64_t steps) {
  for (double start = now(); count_losses(folder) < steps && !hosts.has_ended() && now() - start < 120;)
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  return !hosts.has_ended() || hosts.wait(0) != kNotPermitted;
}

TEST(Hosts, AllEndWithinSecondsWhereARankOfTheOtherHostIsKilled) {
  BIGMAC_NEEDS_PROCESSES();
  auto before = namespaces();
  for (int victim : {3, 0}) {
    TemporaryFolder folder;
    TwoHosts hosts(folder.path());
    if (!wait_for_steps(hosts, folder.path(), 3)) GTEST_SKIP() << "no network namespaces may be made here";
    ASSERT_FALSE(hosts.has_ended());
    kill(std::stoi(read_text(concat(folder.path(), "/pid", victim))), SIGKILL);
    int code = hosts.wait(kMostSeconds);
    EXPECT_TRUE(code == 1 || code == 128 + SIGKILL) << "ended with " << code;
    for (int rank = 0; rank < kRanks; ++rank) {
      if (rank == victim) continue;
      EXPECT_TRUE(error_of(folder.path(), rank).starts_with(concat("rank ", victim, ": ")))
          << "rank " << rank << " says '" << error_of(folder.path(), rank) << "'";
    }
  }
  EXPECT_TRUE(nothing_is_left_behind(before));
}

// As if a host had lost its power: no packet says so.
TEST(Hosts, AllEndWithinAMinuteWhereTheCableIsCut) {
  BIGMAC_NEEDS_PROCESSES();
  TemporaryFolder folder;
  TwoHosts hosts(folder.path());
  if (!wait_for_steps(hosts, folder.path(), 3)) GTEST_SKIP() << "no network namespaces may be made here";
  ASSERT_FALSE(hosts.has_ended());
  ASSERT_EQ(std::system(concat("ip -n ", hosts.host('b'), " link set eth0 down").c_str()), 0);
  double start = now();
  EXPECT_EQ(hosts.wait(60), 1);
  std::cout << "ended after " << now() - start << " s\n";
  for (int rank = 0; rank < kRanks; ++rank) {
    auto text = error_of(folder.path(), rank);
    EXPECT_TRUE(text.starts_with("rank ")) << "rank " << rank << " says '" << text << "'";
  }
}

}  // namespace
}  // namespace bigmac::train
