#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

// The role "training": train() of a small system with two encoders in double precision, P=2, DP=2, as often
// as it takes. What its ranks leave in the folder:
//   checkpoints/   every kEvery steps; a start goes on from the newest
//   losses         a line a step: its number and the loss's bits
//   begun          once all ranks are ready for their first step
//   pid<rank>      the process's number
//   error<rank>    what it ended with, if it failed
// The test may leave `sharding` there: states, full one-sided or full collective.
namespace bigmac::train {

constexpr int kRanks = 4;
constexpr int64_t kSteps = 12, kEvery = 2;

// Every loss that was written down for a step, as bits.
using Losses = std::map<int64_t, std::set<std::string>>;
Losses losses_of(const std::string& folder);
int64_t count_losses(const std::string& folder);

std::string read_text(const std::string& file);  // "" where there is none
void write_text(const std::string& file, const std::string& text);
// Of the start before.
void forget_start(const std::string& folder);
std::string error_of(const std::string& folder, int rank);

// The variable's number, or `otherwise`.
int64_t count_from(const char* variable, int64_t otherwise);

}  // namespace bigmac::train
