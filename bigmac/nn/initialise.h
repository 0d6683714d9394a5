#pragma once

#include <torch/nn/module.h>

#include <cstdint>
#include <string_view>

namespace bigmac::nn {

// Fills every parameter from a generator of its own, seeded by the 64-bit FNV-1a hash of the seed's eight
// bytes (lowest first) and of prefix + the parameter's name, so that a parameter starts alike in any cut
// of the model, on any device and, up to rounding, in any data type: the values are drawn on the CPU in
// float64 and then copied. Prefixes ("decoder.") keep the models of one system apart.
//
//   biases                                        0
//   weights of one dimension (norms)              1
//   embedding, head, modulation, out (by name)    N(0, 0.02): small, but no zero stops a gradient
//   o, down: the projections into the residual    N(0, 1 / sqrt(fan_in * 2 * depth)), depth being that of
//                                                 the innermost Residual around it (Radford et al. 2019);
//                                                 outside of one, 2 * depth is 1
//   all others                                    N(0, 1 / sqrt(fan_in))
//
// N(mean, standard deviation); fan_in is the number of inputs of one output. A module given by itself goes
// by the last part of the prefix: initialise(head, seed, "llm.head.") fills it as the model's head.
void initialise(torch::nn::Module& module, uint64_t seed, std::string_view prefix = "");

}  // namespace bigmac::nn
