#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace bigmac {

enum class Module : uint8_t { backbone, encoder, generator };

// A backbone's backward is one operator, or split in two: the gradient of its input, which the stage before
// waits for, and that of its weights, which nothing waits for. `generate` is a generator's forward and
// backward together, since its loss is its own.
enum class Phase : uint8_t { forward, backward, input, weight, generate };

// One piece of work of one rank.
struct Operator {
  uint32_t index =
      0;  // the microbatch of a backbone operator; the share (table.h) of an encoder's or generator's
  uint16_t chunk =
      0;  // the virtual pipeline stage on that rank; 0 for encoders and generators, which are not cut
  Module module = Module::backbone;
  Phase phase = Phase::forward;

  bool operator==(const Operator&) const = default;
};
static_assert(sizeof(Operator) == 8);

constexpr Operator backbone(Phase phase, int64_t chunk, int64_t microbatch) {
  return {uint32_t(microbatch), uint16_t(chunk), Module::backbone, phase};
}
constexpr Operator backbone_forward(int64_t chunk, int64_t microbatch) {
  return backbone(Phase::forward, chunk, microbatch);
}
constexpr Operator backbone_backward(int64_t chunk, int64_t microbatch) {
  return backbone(Phase::backward, chunk, microbatch);
}
constexpr Operator encoder_forward(int64_t share) {
  return {uint32_t(share), 0, Module::encoder, Phase::forward};
}
constexpr Operator encoder_backward(int64_t share) {
  return {uint32_t(share), 0, Module::encoder, Phase::backward};
}
constexpr Operator generate(int64_t share) {
  return {uint32_t(share), 0, Module::generator, Phase::generate};
}

// Where a forward's activations are let go: a backward, or the weight gradient of a split one.
constexpr bool frees_activations(Phase phase) {
  return phase == Phase::backward || phase == Phase::weight;
}
// What hands a gradient on.
constexpr bool gives_input_gradient(Phase phase) {
  return phase == Phase::backward || phase == Phase::input;
}

std::string_view name(Module module);            // backbone, encoder, generator
Module module_from_name(std::string_view text);  // InvalidInput with the nearest known name
std::string_view letter(Phase phase);            // F, B, I, W, G

// "F0.3" (phase chunk.microbatch); "EF3", "EB3", "G3" (share)
std::string short_name(const Operator& op);
// "backbone F chunk 0 microbatch 3", "encoder B share 3"
std::string long_name(const Operator& op);

}  // namespace bigmac
