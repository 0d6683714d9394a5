#pragma once

#include <chrono>
#include <memory>

#include "bigmac/runtime/environment.h"
#include "bigmac/runtime/transport.h"

namespace bigmac {

struct GlooOptions {
  std::chrono::milliseconds connect_timeout{60'000};  // until all ranks are there
  std::chrono::milliseconds collective_timeout{600'000};
};

// The ranks as processes, over a c10d process group with the Gloo backend. Messages travel in the background
// on both sides. A rank that fails or dies is made known to all through the group's store within seconds.
// Throws InvalidInput where the port is in use or the address is not to be reached.
std::unique_ptr<Transport> connect_gloo(const Environment& environment, const GlooOptions& options = {});

}  // namespace bigmac
