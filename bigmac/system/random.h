#pragma once

#include <torch/types.h>

#include <cstdint>
#include <initializer_list>
#include <mutex>
#include <string>
#include <utility>

namespace bigmac {

// Modules draw from libtorch's default generators: the CPU's, and that of the device they are on. What they
// draw follows a seed, a name and numbers, not what was drawn before: so it is the same on whichever rank.
uint64_t hash_of(uint64_t seed, const std::string& name, std::initializer_list<int64_t> numbers = {});

void seed_generators(torch::Device device, uint64_t seed);

// Two are equal while nothing has been drawn in between.
using GeneratorStates = std::pair<torch::Tensor, torch::Tensor>;
GeneratorStates generator_states(torch::Device device);
bool have_drawn(const GeneratorStates& before, torch::Device device);

// Leaves the generators as they were; until then no other thread that has one of these draws.
class SeededGenerators {
 public:
  SeededGenerators(torch::Device device, uint64_t seed);
  ~SeededGenerators();
  SeededGenerators(const SeededGenerators&) = delete;

 private:
  std::lock_guard<std::mutex> lock_;
  torch::Device device_;
  GeneratorStates before_;
};

}  // namespace bigmac
