#include "bigmac/runtime/launch.h"

#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <thread>

#include "bigmac/runtime/recorder.h"
#include "bigmac/runtime/store.h"
#include "bigmac/runtime/transport.h"

namespace bigmac {
namespace {

pid_t start_rank(const std::vector<std::string>& command, int rank, int ranks, int port) {
  std::vector<std::string> variables;
  for (char** variable = environ; *variable; ++variable) variables.emplace_back(*variable);
  // The last one set would not win in every libc, so earlier ones are dropped.
  auto set = [&](const std::string& name, const std::string& value) {
    std::erase_if(variables, [&](const std::string& old) { return old.starts_with(name + "="); });
    variables.push_back(name + "=" + value);
  };
  set("RANK", std::to_string(rank));
  set("LOCAL_RANK", std::to_string(rank));
  set("WORLD_SIZE", std::to_string(ranks));
  set("MASTER_ADDR", "127.0.0.1");
  set("MASTER_PORT", std::to_string(port));
  set("TORCHELASTIC_USE_AGENT_STORE", "True");

  auto pointers = [](const std::vector<std::string>& texts) {
    std::vector<char*> out;
    for (const auto& text : texts) out.push_back(const_cast<char*>(text.c_str()));
    out.push_back(nullptr);
    return out;
  };
  pid_t pid = 0;
  int error = posix_spawnp(&pid, command.at(0).c_str(), nullptr, nullptr, pointers(command).data(),
                           pointers(variables).data());
  if (error != 0)
    throw Failure(concat("[launch] cannot start '", command.at(0), "': ", std::strerror(error)));
  return pid;
}

std::string describe(int rank, int status) {
  if (WIFSIGNALED(status))
    return concat("rank ", rank, ": killed by signal ", WTERMSIG(status), " (", strsignal(WTERMSIG(status)),
                  ")");
  return concat("rank ", rank, ": ended with exit code ", WEXITSTATUS(status));
}

class Ranks {
 public:
  Ranks() = default;
  Ranks(const Ranks&) = delete;
  ~Ranks() {
    for (auto pid : pids_)
      if (pid > 0) {
        kill(pid, SIGKILL);
        waitpid(pid, nullptr, 0);
      }
  }
  void add(pid_t pid) { pids_.push_back(pid); }
  bool running() const {
    return std::any_of(pids_.begin(), pids_.end(), [](pid_t pid) { return pid > 0; });
  }
  // Calls ended(rank, status) for each rank that has ended since the last call.
  template <class Ended>
  void collect(Ended&& ended) {
    for (size_t rank = 0; rank < pids_.size(); ++rank) {
      int status = 0;
      if (pids_[rank] <= 0 || waitpid(pids_[rank], &status, WNOHANG) != pids_[rank]) continue;
      pids_[rank] = 0;
      ended(int(rank), status);
    }
  }

 private:
  std::vector<pid_t> pids_;
};

}  // namespace

std::vector<std::string> own_command() {
  std::ifstream in("/proc/self/cmdline", std::ios::binary);
  std::vector<std::string> command;
  for (std::string word; std::getline(in, word, '\0');) command.push_back(word);
  if (command.empty()) throw Failure("[launch] cannot read /proc/self/cmdline");
  command[0] = "/proc/self/exe";
  return command;
}

void launch_processes(const std::vector<std::string>& command, const LaunchOptions& options) {
  if (options.ranks < 1) throw InvalidInput(concat("[launch] ranks must be at least 1, got ", options.ranks));
  auto [store, port] = connect_store("127.0.0.1", options.port, true, std::chrono::seconds(60));
  Ranks ranks;
  for (int rank = 0; rank < options.ranks; ++rank) ranks.add(start_rank(command, rank, options.ranks, port));
  std::string failure;
  double failed_at = 0;
  while (ranks.running()) {
    ranks.collect([&](int rank, int status) {
      if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return;
      if (!failure.empty()) return;
      failure = publish_failure(*store, describe(rank, status));
      failed_at = now();
    });
    if (!failure.empty() && now() - failed_at > options.grace_seconds) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  if (!failure.empty()) throw RankFailure(failure);
}

}  // namespace bigmac
