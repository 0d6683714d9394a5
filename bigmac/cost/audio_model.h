#pragma once

#include <vector>

#include "bigmac/cost/model.h"

namespace bigmac::cost {

// A convolution of an audio encoder's front end, by what it does for one token.
struct Convolution {
  int64_t in = 0, out = 0;  // values under its kernel, channels out
  int64_t positions = 1;    // of its output that end in one token
};

// Audio encoder with LayerNorm, biases and GELU, over tokens that convolutions make of a mel spectrogram.
struct AudioShape {
  int64_t layers = 0, hidden = 0, heads = 0, ffn = 0;
  std::vector<Convolution> convolutions{};
  int64_t flattened = 0;  // width that a linear part without bias brings to `hidden`; 0: there is none
  bool key_bias = true;
  int64_t positions = 0;  // entries of a position table that counts as parameters
  int64_t window = 0;     // tokens that a token sees; 0: all
  int64_t out = 0;        // width after linear, GELU, linear behind the last norm; 0: there are none
};
// Layers: "embedding"; "layer"; "head". A token of Whisper stands for 20 ms of sound, of Qwen3-Omni for 80
// ms.
Model audio_model(const AudioShape& shape);

}  // namespace bigmac::cost
