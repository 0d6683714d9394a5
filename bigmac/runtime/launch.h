#pragma once

#include <string>
#include <vector>

namespace bigmac {

struct LaunchOptions {
  int ranks = 1;
  int port = 0;              // of the meeting point on 127.0.0.1; 0 takes a free one
  double grace_seconds = 8;  // after a failure, until what is left is killed
};

// The command line that started this program.
std::vector<std::string> own_command();

// Starts `command` once a rank on this machine, with the environment of torchrun, and waits for all. The
// meeting point is in this process, so it outlives any rank. Throws RankFailure with the first failed rank's
// error, after every rank has ended.
void launch_processes(const std::vector<std::string>& command, const LaunchOptions& options);

}  // namespace bigmac
