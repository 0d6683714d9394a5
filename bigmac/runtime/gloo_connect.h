#pragma once

#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include <functional>
#include <string>
#include <vector>

namespace bigmac {

// Waits until all of `ranks`, of which this is `rank`, have come to the store under the same name. Calls
// `look` meanwhile, which may throw. Throws Failure naming those that are not there in time.
void meet(c10d::Store& store, const std::string& name, const std::vector<int>& ranks, int rank,
          std::chrono::milliseconds timeout, const std::function<void()>& look);

// Where other ranks reach this one: the addresses of the interfaces that GLOO_SOCKET_IFNAME names, or the one
// from which this machine reaches `address` (interface.h).
std::string listens_on(const std::string& address);

// Connects `size` processes with one another, this as number `index`, over the interfaces that
// GLOO_SOCKET_IFNAME names (several with commas between) or else the one that leads to `address`. Throws
// InvalidInput for an interface that is not there.
c10::intrusive_ptr<c10d::ProcessGroupGloo> connect_all(const c10::intrusive_ptr<c10d::Store>& store,
                                                       const std::string& address, int index, int size,
                                                       std::chrono::milliseconds timeout);
// The same without blocking `look`, which is called meanwhile; if it throws, the attempt is left behind.
c10::intrusive_ptr<c10d::ProcessGroupGloo> connect_all(const c10::intrusive_ptr<c10d::Store>& store,
                                                       const std::string& address, int index, int size,
                                                       std::chrono::milliseconds timeout,
                                                       const std::function<void()>& look);

}  // namespace bigmac
