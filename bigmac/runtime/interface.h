#pragma once

#include <string>
#include <vector>

namespace bigmac {

// Whether `host` says loopback in so many words: "localhost", 127.0.0.1 (and the like), ::1.
bool is_this_machine_alone(const std::string& host);

// The address, as digits, from which this machine reaches `host`: that of the interface which the route to it
// takes. Nothing is sent. A machine often knows its own name by a loopback address alone (Debian: 127.0.1.1),
// where no other could reach it; it is then the address of the default route's interface, if there is one.
// "" where the name has no address or no route leads there.
std::string address_towards(const std::string& host);

// "eth0,eth1" -> both; none for nullptr or "". Throws InvalidInput naming GLOO_SOCKET_IFNAME and an interface
// that this machine does not have, with those that it has.
std::vector<std::string> interfaces_from(const char* text);

}  // namespace bigmac
