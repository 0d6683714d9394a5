#include "bigmac/runtime/interface.h"

#include <arpa/inet.h>
#include <net/if.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "bigmac/common/error.h"
#include "bigmac/common/names.h"

namespace bigmac {
namespace {

struct Address {
  sockaddr_storage storage{};
  socklen_t length = sizeof(sockaddr_storage);
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

std::vector<Address> addresses_of(const std::string& host, int flags) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_DGRAM;
  hints.ai_flags = flags;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), "9", &hints, &found) != 0) return {};
  std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> list(found, freeaddrinfo);
  std::vector<Address> addresses;
  for (auto* one = found; one; one = one->ai_next) {
    auto& address = addresses.emplace_back();
    address.length = one->ai_addrlen;
    std::copy_n(reinterpret_cast<const char*>(one->ai_addr), one->ai_addrlen,
                reinterpret_cast<char*>(&address.storage));
  }
  return addresses;
}

bool is_loopback(const Address& address) {
  if (address.storage.ss_family == AF_INET6)
    return IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6*>(&address.storage)->sin6_addr);
  auto number = ntohl(reinterpret_cast<const sockaddr_in*>(&address.storage)->sin_addr.s_addr);
  return number >> 24 == 127;
}

// A datagram socket that is connected has its route chosen.
std::optional<Address> source_towards(const Address& there) {
  int handle = socket(there.storage.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (handle < 0) return std::nullopt;
  Address own;
  bool routed =
      connect(handle, there.get(), there.length) == 0 && getsockname(handle, own.get(), &own.length) == 0;
  close(handle);
  return routed ? std::optional(own) : std::nullopt;
}

std::string digits(const Address& address) {
  char text[NI_MAXHOST] = "";
  getnameinfo(address.get(), address.length, text, sizeof text, nullptr, 0, NI_NUMERICHOST);
  return text;
}

std::vector<std::string> own_interfaces() {
  std::unique_ptr<struct if_nameindex, decltype(&if_freenameindex)> list(if_nameindex(), if_freenameindex);
  std::vector<std::string> names;
  for (auto* one = list.get(); one && one->if_name; ++one) names.emplace_back(one->if_name);
  return names;
}

}  // namespace

bool is_this_machine_alone(const std::string& host) {
  if (host == "localhost") return true;
  auto addresses = addresses_of(host, AI_NUMERICHOST);
  return !addresses.empty() && is_loopback(addresses[0]);
}

std::string address_towards(const std::string& host) {
  if (host == "localhost") return "127.0.0.1";
  std::string loopback;
  for (const auto& there : addresses_of(host, 0))
    if (auto own = source_towards(there)) {
      if (!is_loopback(*own)) return digits(*own);
      if (loopback.empty()) loopback = digits(*own);
    }
  if (loopback.empty() || is_this_machine_alone(host)) return loopback;
  // An address set aside for documentation stands for any that is far away.
  for (const auto& far : addresses_of("198.51.100.1", AI_NUMERICHOST))
    if (auto own = source_towards(far)) return digits(*own);
  return loopback;
}

std::vector<std::string> interfaces_from(const char* text) {
  std::vector<std::string> names;
  std::string rest = text ? text : "";
  while (!rest.empty()) {
    auto comma = rest.find(',');
    if (auto name = rest.substr(0, comma); !name.empty()) names.push_back(name);
    rest = comma == std::string::npos ? "" : rest.substr(comma + 1);
  }
  auto known = own_interfaces();
  for (const auto& name : names)
    if (std::find(known.begin(), known.end(), name) == known.end())
      throw InvalidInput(concat("[launch] GLOO_SOCKET_IFNAME: ", unknown_name("interface", name, known)));
  return names;
}

}  // namespace bigmac
