#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace bigmac {

enum class Module : uint8_t { backbone, encoder, generator };

// forward and backward; `generate` is a generator's forward and backward together, since its loss is its own.
enum class Phase : uint8_t { forward, backward, generate };

// One piece of work of one rank on one microbatch. `chunk` is the virtual pipeline stage on that rank,
// 0 for encoders and generators, which are not cut.
struct Operator {
  uint32_t microbatch = 0;
  uint16_t chunk = 0;
  Module module = Module::backbone;
  Phase phase = Phase::forward;

  bool operator==(const Operator&) const = default;
};
static_assert(sizeof(Operator) == 8);

constexpr Operator backbone_forward(int chunk, int microbatch) {
  return {uint32_t(microbatch), uint16_t(chunk), Module::backbone, Phase::forward};
}
constexpr Operator backbone_backward(int chunk, int microbatch) {
  return {uint32_t(microbatch), uint16_t(chunk), Module::backbone, Phase::backward};
}
constexpr Operator encoder_forward(int microbatch) {
  return {uint32_t(microbatch), 0, Module::encoder, Phase::forward};
}
constexpr Operator encoder_backward(int microbatch) {
  return {uint32_t(microbatch), 0, Module::encoder, Phase::backward};
}
constexpr Operator generate(int microbatch) {
  return {uint32_t(microbatch), 0, Module::generator, Phase::generate};
}

std::string_view name(Module module);  // backbone, encoder, generator
std::string_view letter(Phase phase);  // F, B, G

// "F0.3" (phase chunk.microbatch), "EF3", "EB3", "G3"
std::string short_name(const Operator& op);
// "backbone F chunk 0 microbatch 3", "encoder B microbatch 3"
std::string long_name(const Operator& op);

}  // namespace bigmac
