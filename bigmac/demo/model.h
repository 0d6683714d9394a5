#pragma once

#include "bigmac/demo/config.h"
#include "bigmac/system/system.h"

namespace bigmac::demo {

inline constexpr const char* kVision = "vision";    // VisionEncoder
inline constexpr const char* kAudio = "audio";      // AudioEncoder
inline constexpr const char* kBackbone = "llm";     // Embedding, DecoderLayer, DecoderHead
inline constexpr const char* kDrawing = "drawing";  // DiffusionTransformer

// What a sample holds (S: side of the pictures, D: draws):
//
//   tokens, labels       [L] int64; labels of kNoLabel do not count
//   pixels               [3, S, S] of each picture that is seen
//   clip, frames         [mels, frames] of each name that is heard, and frames alone, [] int64
//   target, noise, times [3, S, S], [D, 3, S, S], [D] of each picture that is drawn
//
// Losses: "text", the cross-entropy over labelled tokens; "drawing", the squared error of the velocity over
// the targets' values; with experts "balance" and "router z" (nn/moe.h) over tokens, the mean of the layers.
// Values start as nn::initialise gives them by name and seed.
System make_system(const Config& config);

}  // namespace bigmac::demo
