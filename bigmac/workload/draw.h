#pragma once

#include <cstdint>
#include <vector>

#include "bigmac/workload/workload.h"

namespace bigmac {

// Tokens of the items of each sample, drawn, in whole tokens: [sample][item]. Sizes are exp(mu + sigma z)
// with mu = ln(tokens) - sigma^2 / 2, so that their mean is `tokens` before they are rounded and clamped.
//
// The same distribution, seed and stream give the same items everywhere (its own arithmetic on SplitMix64,
// since the standard's distributions differ by library). Every sample has a generator of its own, so the
// first samples of a longer draw are those of a shorter one. Throws InvalidInput for a distribution that
// cannot be, and fewer than 0 samples.
std::vector<std::vector<double>> draw_items(const ItemDistribution& distribution, int64_t samples,
                                            uint64_t seed, uint64_t stream);

}  // namespace bigmac
