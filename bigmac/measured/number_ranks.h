#pragma once

#include <string>
#include <vector>

#include "bigmac/measured/raw_step.h"

namespace bigmac {

// Puts the ranks of one pipeline in order and numbers them from 0; those that are equally far apart, as in a
// run with other kinds of parallelism, are taken as neighbours where they may be `apart`. Throws InvalidInput
// for a rank that is there twice or missing.
void number_ranks(std::vector<RawRank>& ranks, bool apart, std::vector<std::string>& notes);

// The same where ranks may be missing, which are put between the others, empty: of ranks that are there twice
// the one with more operators is taken, and numbers that are far from the others are left out. `least`: how
// many ranks there are, as far as that is known.
void number_ranks_that_are_there(std::vector<RawRank>& ranks, int64_t least, bool apart,
                                 std::vector<std::string>& notes);

// "2, 5 to 7, 9": of numbers in ascending order.
std::string ranges(const std::vector<int64_t>& numbers);

}  // namespace bigmac
