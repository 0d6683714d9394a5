#pragma once

#include <string>
#include <vector>

namespace bigmac::roles {

// A role's processes as they are started by hand, with no launcher that looks after them: the environment of
// torchrun, and rank 0 serves the store.
class ByHand {
 public:
  ByHand(const std::string& role, const std::string& folder, int ranks);
  ByHand(const ByHand&) = delete;
  ~ByHand();  // kills what is left

  void kill(int rank);
  // Each rank's status as waitpid() has it, so far; -1 for those that still run.
  const std::vector<int>& statuses();
  bool all_ended();

  // Waits until all have ended, but no longer than `seconds` after the first of them has, and `most` seconds
  // in all.
  const std::vector<int>& wait(double seconds, double most = 90);
  double took() const { return last_end_ - first_end_; }  // from the first rank's end to the last's

 private:
  std::vector<int> pids_;  // 0 for those that have ended
  std::vector<int> statuses_;
  double first_end_, last_end_ = 0;
};

// A port that is free at the moment, below those that the kernel gives to connections
// (net.ipv4.ip_local_port_range).
int free_port();

// Ends with code 1.
bool has_failed(int status);

}  // namespace bigmac::roles
