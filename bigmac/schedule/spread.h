#pragma once

#include "bigmac/schedule/table.h"

namespace bigmac {

// Which rank runs which items: unit by unit, each unit's items spread over the P ranks by size, longest
// processing time first (Graham 1969): in order of falling size, ties by number, each item to the rank with
// the least so far, ties to the lower rank. So the largest share is at most the mean and one item. Where the
// step does not spread, an item goes to rank m mod P. A rank without items has no share of the unit.
Shares spread(const Step& step);

// The same ranks, but every item a share of its own, in order of module, unit and item.
Shares spread_singly(const Step& step);

// Ranks for `sizes` as above, by position in `sizes`; `held` is what each rank has already, if anything.
std::vector<int32_t> longest_first(const std::vector<double>& sizes, int64_t ranks,
                                   const std::vector<double>& held = {});

// The step whose modules of the other kind have no items.
Step only_items_of(Module kind, Step step);

// By module: the largest share that any rank has of any unit. What "one live unit" means in bytes.
std::vector<double> unit_sizes(const Step& step, const Shares& spread);

}  // namespace bigmac
