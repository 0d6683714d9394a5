#pragma once

#include <string>

#include "bigmac/timeline/recording.h"

namespace bigmac {

// 4 ranks, 2 chunks, 8 microbatches with uneven vision items and a generator, simulated with a batched
// exchange; operators F0.3, B1.5, EF..., G...
Recording nested_recording(const std::string& name = "nested");

// The same step with the encoder in the first stage and the generator in the last.
Recording megatron_recording(const std::string& name = "megatron");

// What each rank holds in it, and a limit.
void add_memory(Recording& recording);

// 64 ranks with 1,048,576 operators of uneven length.
Recording million_recording();

}  // namespace bigmac
