#include "tests/support/by_hand.h"

#include <arpa/inet.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <thread>

#include "bigmac/common/error.h"
#include "bigmac/runtime/recorder.h"

namespace bigmac::roles {

ByHand::ByHand(const std::string& role, const std::string& folder, int ranks)
    : statuses_(size_t(ranks), -1), first_end_(INFINITY) {
  int port = free_port();
  for (int rank = 0; rank < ranks; ++rank) {
    std::vector<std::string> variables{concat("RANK=", rank),      concat("WORLD_SIZE=", ranks),
                                       "MASTER_ADDR=127.0.0.1",    concat("MASTER_PORT=", port),
                                       "BIGMAC_TEST_ROLE=" + role, "BIGMAC_TEST_FOLDER=" + folder};
    for (char** variable = environ; *variable; ++variable)
      if (!std::string(*variable).starts_with("BIGMAC_TEST_")) variables.emplace_back(*variable);
    std::vector<char*> pointers;
    for (auto& variable : variables) pointers.push_back(variable.data());
    pointers.push_back(nullptr);
    char program[] = "/proc/self/exe";
    char* command[] = {program, nullptr};
    pid_t pid = 0;
    if (posix_spawn(&pid, program, nullptr, nullptr, command, pointers.data()) != 0)
      throw Failure("cannot start a rank");
    pids_.push_back(pid);
  }
}

ByHand::~ByHand() {
  for (pid_t pid : pids_)
    if (pid > 0) {
      ::kill(pid, SIGKILL);
      waitpid(pid, nullptr, 0);
    }
}

void ByHand::kill(int rank) {
  if (pid_t pid = pids_[size_t(rank)]; pid > 0) ::kill(pid, SIGKILL);
}

const std::vector<int>& ByHand::statuses() {
  for (size_t rank = 0; rank < pids_.size(); ++rank)
    if (pids_[rank] > 0 && waitpid(pids_[rank], &statuses_[rank], WNOHANG) == pids_[rank]) {
      pids_[rank] = 0;
      last_end_ = now();
      first_end_ = std::min(first_end_, last_end_);
    }
  return statuses_;
}

bool ByHand::all_ended() {
  statuses();
  return std::all_of(pids_.begin(), pids_.end(), [](pid_t pid) { return pid == 0; });
}

const std::vector<int>& ByHand::wait(double seconds, double most) {
  for (double start = now(); !all_ended() && now() - first_end_ < seconds && now() - start < most;)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  return statuses_;
}

int free_port() {
  std::random_device random;
  for (;;) {
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_ANY);
    address.sin_port = htons(uint16_t(10000 + random() % 22000));
    bool free = bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
    close(listener);
    if (free) return ntohs(address.sin_port);
  }
}

bool has_failed(int status) {
  return status != -1 && WIFEXITED(status) && WEXITSTATUS(status) == 1;
}

}  // namespace bigmac::roles
