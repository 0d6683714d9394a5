#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bigmac/runtime/transport.h"
#include "bigmac/train/options.h"

namespace bigmac::train {

// A line each for the options and for what the system consists of, which are the same on every rank of a run;
// not the device and the threads, which may differ.
std::string lines_of(const TrainOptions& options, const System& system);

// Throws InvalidInput, on all ranks, naming the first rank whose lines differ from rank 0's and both lines.
void expect_alike(Transport& world, Group& everyone, const std::string& lines);

// Every member's number, in the group's order.
std::vector<int64_t> numbers_of(Group& group, int64_t number);

// The first rank of the group whose number differs from the first one's, -1 where none does.
int find_other(Group& group, uint64_t number);

}  // namespace bigmac::train
