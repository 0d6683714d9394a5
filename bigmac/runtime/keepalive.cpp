#include "bigmac/runtime/keepalive.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cstdlib>
#include <filesystem>

namespace bigmac {
namespace {

namespace fs = std::filesystem;

constexpr int kProbes = 3;

void watch(int handle, Watched watched) {
  sockaddr_storage peer{};
  socklen_t length = sizeof peer;
  if (getpeername(handle, reinterpret_cast<sockaddr*>(&peer), &length) != 0) return;
  if (peer.ss_family != AF_INET && peer.ss_family != AF_INET6) return;
  auto set = [&](int level, int option, int value) {
    setsockopt(handle, level, option, &value, sizeof value);
  };
  set(IPPROTO_TCP, TCP_USER_TIMEOUT, kSilence * 1000);
  if (watched == Watched::sent) return;
  set(IPPROTO_TCP, TCP_KEEPIDLE, kSilence / 2);
  set(IPPROTO_TCP, TCP_KEEPINTVL, (kSilence - kSilence / 2) / kProbes);
  set(IPPROTO_TCP, TCP_KEEPCNT, kProbes);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
}

}  // namespace

std::set<int> open_files() {
  std::set<int> handles;
  std::error_code none;
  for (fs::directory_iterator entry("/proc/self/fd", none), end; !none && entry != end; entry.increment(none))
    handles.insert(std::atoi(entry->path().filename().c_str()));
  // One was the listing's own; the next file takes its number.
  std::erase_if(handles, [](int handle) { return fcntl(handle, F_GETFD) == -1; });
  return handles;
}

void watch_new_connections(const std::set<int>& before, Watched watched) {
  for (int handle : open_files())
    if (!before.contains(handle)) watch(handle, watched);
}

}  // namespace bigmac
