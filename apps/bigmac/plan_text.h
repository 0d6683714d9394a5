#pragma once

#include <string>

#include "bigmac/plan/compare.h"

namespace bigmac {

std::string seconds_text(double seconds);  // "4.21 s", "310 ms"
std::string percent_text(double part);     // "12.3 %"

// "Qwen3-30B-A3B + ViT on 128 H800 of 80.0 GiB"
std::string job_text(const Workload& workload);

// A plan as text: the best, the frontier, what the best one's step and memory consist of, and why others fail.
std::string to_text(const Plan& plan, const Workload& workload, double seconds);

// A comparison as text: a table for each batch with step, speed-up of the last system over each, bubble, memory and
// configuration.
std::string to_text(const Comparison& comparison, const Workload& workload);

}  // namespace bigmac
