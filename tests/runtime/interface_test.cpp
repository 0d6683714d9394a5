#include "bigmac/runtime/interface.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <net/if.h>
#include <unistd.h>

#include "bigmac/common/error.h"

namespace bigmac {
namespace {

bool is_digits(const std::string& text) {
  unsigned char bytes[16];
  return inet_pton(AF_INET, text.c_str(), bytes) == 1 || inet_pton(AF_INET6, text.c_str(), bytes) == 1;
}

TEST(Interface, ThatIsThisMachineAloneIsSoByItsName) {
  for (const char* host : {"localhost", "127.0.0.1", "127.0.1.1", "::1"})
    EXPECT_TRUE(is_this_machine_alone(host)) << host;
  for (const char* host : {"10.77.0.1", "198.51.100.1", "2001:db8::1", "gpu07", "localhost.example", ""})
    EXPECT_FALSE(is_this_machine_alone(host)) << host;
}

TEST(Interface, TowardsThisMachineAloneIsLoopback) {
  EXPECT_EQ(address_towards("localhost"), "127.0.0.1");
  for (const char* host : {"127.0.0.1", "127.0.1.1"}) EXPECT_TRUE(address_towards(host).starts_with("127."));
}

TEST(Interface, TowardsFarAwayIsOneThatOthersReach) {
  auto own = address_towards("198.51.100.7");
  if (own.empty()) GTEST_SKIP() << "no route leads away from here";
  EXPECT_TRUE(is_digits(own)) << own;
  EXPECT_FALSE(is_this_machine_alone(own)) << own;
  // Towards itself it is itself.
  EXPECT_EQ(address_towards(own), own);
}

TEST(Interface, TowardsTheMachinesOwnNameIsTheOneTowardsFarAwayWhereTheNameIsLoopback) {
  char name[256] = "";
  ASSERT_EQ(gethostname(name, sizeof name - 1), 0);
  auto own = address_towards(name), away = address_towards("198.51.100.7");
  if (own.empty() || away.empty())
    GTEST_SKIP() << "this machine's name has no address, or no route leads away";
  EXPECT_FALSE(is_this_machine_alone(own)) << own;
}

TEST(Interface, TowardsAHostWithoutAnAddressIsNone) {
  EXPECT_EQ(address_towards("no-such-host.invalid"), "");
}

TEST(Interfaces, AreListedWithCommas) {
  char name[IF_NAMESIZE] = "";
  ASSERT_TRUE(if_indextoname(1, name));
  std::string one = name;
  EXPECT_EQ(interfaces_from(one.c_str()), std::vector<std::string>{one});
  EXPECT_EQ(interfaces_from((one + "," + one + ",").c_str()), (std::vector<std::string>{one, one}));
  EXPECT_TRUE(interfaces_from(nullptr).empty());
  EXPECT_TRUE(interfaces_from("").empty());
}

TEST(Interfaces, ThatAreNotThereAreRefusedByName) {
  try {
    interfaces_from("no-such0");
    FAIL() << "taken";
  } catch (const InvalidInput& error) {
    std::string text = error.what();
    EXPECT_TRUE(text.starts_with("[launch] GLOO_SOCKET_IFNAME: unknown interface 'no-such0'")) << text;
    EXPECT_NE(text.find("lo"), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace bigmac
