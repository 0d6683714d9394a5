#pragma once

#include "bigmac/schedule/costs.h"

namespace bigmac {

// Encoder items in the bubbles of the backbone's own timeline, as Optimus does (Feng et al. 2024): an item's
// forward in a bubble that ends before its microbatch's first forward starts, its backward, on the same rank,
// in one that begins when its gradient is there; what finds no bubble runs before and behind the backbone's
// work, spread over the ranks longest first. Nothing bounds how many items (or outputs of a frozen encoder)
// are held: O(M/P) a rank. With a generator all of its work runs between the backbone's forwards and its
// backwards, so that the backbone holds all M microbatches. `nominal` is what bubbles are looked for with.
// Several ways to divide what finds no bubble are tried, and one that leaves all bubbles empty; the shortest
// table is taken of those that run with blocking sends too.
Schedule optimus_schedule(const Step& step, const Costs& nominal);

}  // namespace bigmac
