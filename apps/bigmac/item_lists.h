#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "bigmac/schedule/step.h"

namespace bigmac {

// The most items that one module of a step may have on the command line.
inline constexpr int64_t kMostItems = int64_t(1) << 24;
inline constexpr size_t kMostListBytes = size_t(1) << 29;  // of a file of items or of an order

// The items that the value of --items declares for each of `microbatches`:
//
//   N                           N equal ones in every microbatch
//   random:MEAN,SIGMA[,EMPTY]   1 + Poisson(MEAN - 1) of them, sizes log-normal with SIGMA; the share EMPTY
//   of
//                               the microbatches, chosen at random, has none
//   FILE                        as parse_items reads it
//
// The first two are scaled so that the sizes of a mean microbatch, of all of them, add up to 1. Throws
// InvalidInput that says what is legal.
std::vector<Item> make_items(const std::string& text, int64_t microbatches, uint64_t seed);

bool is_random_items(std::string_view text);

// Lines "microbatch,size" behind a line that says so, in any order. `file` is only named. Throws InvalidInput
// as "[items] file:3: ...".
std::vector<Item> parse_items(std::string_view text, const std::string& file, int64_t microbatches);

// The microbatches of a step in the order in which they are to run: `microbatches` different numbers, with
// blanks, line ends or commas between them. Throws InvalidInput as "[order] file:3: ...".
std::vector<uint32_t> parse_order(std::string_view text, const std::string& file, int64_t microbatches);

}  // namespace bigmac
