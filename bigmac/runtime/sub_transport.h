#pragma once

#include "bigmac/runtime/transport.h"

namespace bigmac {

// Some ranks of a transport as a transport of their own: its rank i is ranks[i] of the whole. Failures are
// those of the whole. Messages take the whole's connections, so that two parts that share a pair of ranks
// must not be used at a time. `whole` must outlive it. All of `ranks` make theirs together. Throws
// InvalidInput where ranks are not ascending, not in the whole, or this rank is not among them.
std::unique_ptr<Transport> make_sub_transport(Transport& whole, std::vector<int> ranks);

}  // namespace bigmac
