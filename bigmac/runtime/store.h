#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <optional>
#include <string>

namespace bigmac {

// A connection to the store at which a group of processes meets; the server side as well if `serves`. With
// port 0 a server takes any free port. From here on the process ignores SIGPIPE, unless it has a handler of
// its own. Throws InvalidInput naming the port or address and the reason.
struct StoreConnection {
  c10::intrusive_ptr<c10d::Store> store;
  int port = 0;
};
StoreConnection connect_store(const std::string& address, int port, bool serves,
                              std::chrono::milliseconds timeout);

// The group's first failure, kept in the store. Publishing returns the one it holds then.
std::string publish_failure(c10d::Store& store, const std::string& reason);
std::optional<std::string> published_failure(c10d::Store& store);

}  // namespace bigmac
