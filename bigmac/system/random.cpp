#include "bigmac/system/random.h"

#include <ATen/Context.h>

namespace bigmac {
namespace {

// The threads of a process share its generators.
std::mutex& generators_mutex() {
  static std::mutex mutex;
  return mutex;
}

at::Generator generator_of(torch::Device device) {
  return at::globalContext().defaultGenerator(device);
}

void seed_one(torch::Device device, uint64_t seed) {
  auto generator = generator_of(device);
  std::lock_guard lock(generator.mutex());
  generator.set_current_seed(seed);
}

torch::Tensor state_of(torch::Device device) {
  auto generator = generator_of(device);
  std::lock_guard lock(generator.mutex());
  return generator.get_state();
}

void restore(torch::Device device, const torch::Tensor& state) {
  auto generator = generator_of(device);
  std::lock_guard lock(generator.mutex());
  generator.set_state(state);
}

}  // namespace

// 64-bit FNV-1a over the seed's bytes, the name and the numbers' bytes.
uint64_t hash_of(uint64_t seed, const std::string& name, std::initializer_list<int64_t> numbers) {
  uint64_t hash = 14695981039346656037u;
  auto take = [&](uint8_t byte) { hash = (hash ^ byte) * 1099511628211u; };
  auto take_all = [&](uint64_t number) {
    for (int i = 0; i < 8; ++i) take(uint8_t(number >> (8 * i)));
  };
  take_all(seed);
  for (char c : name) take(uint8_t(c));
  for (int64_t number : numbers) take_all(uint64_t(number));
  return hash;
}

void seed_generators(torch::Device device, uint64_t seed) {
  seed_one(torch::kCPU, seed);
  if (!device.is_cpu()) seed_one(device, seed);
}

GeneratorStates generator_states(torch::Device device) {
  return {state_of(torch::kCPU), device.is_cpu() ? torch::Tensor() : state_of(device)};
}

bool have_drawn(const GeneratorStates& before, torch::Device device) {
  auto after = generator_states(device);
  return !torch::equal(before.first, after.first) ||
         (before.second.defined() && !torch::equal(before.second, after.second));
}

SeededGenerators::SeededGenerators(torch::Device device, uint64_t seed)
    : lock_(generators_mutex()), device_(device), before_(generator_states(device)) {
  seed_generators(device, seed);
}

SeededGenerators::~SeededGenerators() {
  restore(torch::kCPU, before_.first);
  if (before_.second.defined()) restore(device_, before_.second);
}

}  // namespace bigmac
