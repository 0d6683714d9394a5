#pragma once

#include <array>
#include <string>
#include <vector>

#include "bigmac/train/options.h"
#include "tests/train/systems.h"

namespace bigmac::train {

// One way to run one of the systems, as a choice for each factor.
enum Factor { kSystem, kLayout, kTransport, kSharding, kVariant, kSchedule, kFactors };
using Case = std::array<int, kFactors>;

std::string describe(const Case& chosen);

// All that are legal: a schedule for the layout's chunks, sharding that the schedule can gather for.
std::vector<Case> all_cases();
// Of those so many that every two choices of two factors that are legal together stand in one of them.
std::vector<Case> pairwise_cases();

int ranks_of(const Case& chosen);
bool in_processes(const Case& chosen);
System system_of(const Case& chosen);
TrainOptions options_of(const Case& chosen);
Batches batches_of(const Case& chosen);
// What has the same gradients on one rank: cases of one key share their plain loop.
std::string plain_key(const Case& chosen);

}  // namespace bigmac::train
