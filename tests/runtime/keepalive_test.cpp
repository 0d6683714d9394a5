#include "bigmac/runtime/keepalive.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

namespace bigmac {
namespace {

// Both ends of a TCP connection.
struct Connection {
  Connection() {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    auto* any = reinterpret_cast<sockaddr*>(&address);
    if (bind(listener, any, length) != 0 || listen(listener, 1) != 0) return;
    getsockname(listener, any, &length);
    if (connect(here, any, length) == 0) there = accept(listener, nullptr, nullptr);
  }
  ~Connection() {
    for (int handle : {listener, here, there}) close(handle);
  }
  int listener = socket(AF_INET, SOCK_STREAM, 0), here = socket(AF_INET, SOCK_STREAM, 0), there = -1;
};

int option(int handle, int level, int name) {
  int value = -1;
  socklen_t length = sizeof value;
  getsockopt(handle, level, name, &value, &length);
  return value;
}

TEST(Keepalive, IsOfTheConnectionsThatHaveComeAndOfNoOthers) {
  Connection old;
  auto before = open_files();
  ASSERT_TRUE(before.contains(old.here));
  Connection fresh;
  int pipe_ends[2];
  ASSERT_EQ(pipe(pipe_ends), 0);
  watch_new_connections(before, Watched::idle_too);
  for (int handle : {fresh.here, fresh.there}) {
    EXPECT_NE(option(handle, SOL_SOCKET, SO_KEEPALIVE), 0);
    EXPECT_EQ(option(handle, IPPROTO_TCP, TCP_USER_TIMEOUT), kSilence * 1000);
    int silence = option(handle, IPPROTO_TCP, TCP_KEEPIDLE) +
                  option(handle, IPPROTO_TCP, TCP_KEEPCNT) * option(handle, IPPROTO_TCP, TCP_KEEPINTVL);
    EXPECT_LE(silence, kSilence);
    EXPECT_GT(silence, kSilence / 2);
  }
  for (int handle : {old.here, old.there, fresh.listener})
    EXPECT_EQ(option(handle, SOL_SOCKET, SO_KEEPALIVE), 0);
  for (int end : pipe_ends) close(end);
}

TEST(Keepalive, KnowsWhatIsOpenAndNothingElse) {
  auto handles = open_files();
  EXPECT_TRUE(handles.contains(STDOUT_FILENO));
  for (int handle : handles) EXPECT_NE(fcntl(handle, F_GETFD), -1) << handle;
}

TEST(Keepalive, MayBeOfWhatIsSentAlone) {
  auto before = open_files();
  Connection connection;
  watch_new_connections(before, Watched::sent);
  EXPECT_EQ(option(connection.here, SOL_SOCKET, SO_KEEPALIVE), 0);
  EXPECT_EQ(option(connection.here, IPPROTO_TCP, TCP_USER_TIMEOUT), kSilence * 1000);
}

}  // namespace
}  // namespace bigmac
