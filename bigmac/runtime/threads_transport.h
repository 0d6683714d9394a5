#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "bigmac/runtime/transport.h"

namespace bigmac {

// The ranks as threads of one process: messages are handed over as they are, without a copy.
std::vector<std::unique_ptr<Transport>> make_threads_group(int ranks);

// Runs body on every rank of a threads group, each on a thread of its own, and joins them. If a rank throws,
// all stop and this throws RankFailure with that rank's error.
void run_threads(int ranks, const std::function<void(Transport&)>& body);

}  // namespace bigmac
