#pragma once

#include <string>
#include <vector>

#include "bigmac/measured/raw_step.h"
#include "bigmac/measured/read_measured.h"

namespace bigmac {

// Divides the operators of several steps that ranks ran one behind another. A step begins where an operator
// comes again; where operators do not say their microbatch, behind as many forwards as a step has: M of
// `options`, else until rank 0 has run a backward of each. Throws InvalidInput for ranks with different
// numbers of steps; with `left` a step of which a trace has the end or the beginning only is one of its own,
// and the steps of ranks that have fewer are laid beside those that are nearest in time.
std::vector<RawStep> divide_into_steps(std::vector<RawRank> ranks, const ReadOptions& options,
                                       LeftOut* left = nullptr);

}  // namespace bigmac
