#include "bigmac/cost/hardware.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "bigmac/common/error.h"
#include "bigmac/common/names.h"

namespace bigmac::cost {
namespace {

constexpr double kGiB = 1024.0 * 1024 * 1024;
constexpr double kInside = 3e-6, kBetween = 10e-6;

const std::array<Hardware, 4>& presets() {
  static const std::array<Hardware, 4> all = {{
      {"H800", 989e12, 80 * kGiB, 3.35e12, {kInside, 200e9}, {kBetween, 50e9}},
      {"H100", 989e12, 80 * kGiB, 3.35e12, {kInside, 450e9}, {kBetween, 50e9}},
      {"H200", 989e12, 141 * kGiB, 4.8e12, {kInside, 450e9}, {kBetween, 50e9}},
      {"A100", 312e12, 80 * kGiB, 2.039e12, {kInside, 300e9}, {kBetween, 25e9}},
  }};
  return all;
}

void check_positive(std::string_view where, std::string_view field, double value) {
  if (!(value > 0) || std::isinf(value))
    throw InvalidInput(concat(where, " ", field, " must be above 0 and finite, got ", value));
}

void check_link(std::string_view where, std::string_view link, const Link& figures) {
  if (!(figures.latency >= 0) || std::isinf(figures.latency))
    throw InvalidInput(
        concat(where, " ", link, " latency must be at least 0 and finite, got ", figures.latency));
  if (!(figures.bandwidth > 0))
    throw InvalidInput(concat(where, " ", link, " bandwidth must be above 0, got ", figures.bandwidth));
}

void check_share(std::string_view where, std::string_view field, double value) {
  if (!(value > 0 && value <= 1))
    throw InvalidInput(concat(where, " ", field, " must be above 0 and at most 1, got ", value));
}

}  // namespace

Hardware hardware_from_name(std::string_view name) {
  for (const auto& preset : presets())
    if (preset.name == name) return preset;
  throw InvalidInput(unknown_name("hardware", name, known_hardware()));
}

std::vector<std::string> known_hardware() {
  std::vector<std::string> names;
  for (const auto& preset : presets()) names.push_back(preset.name);
  return names;
}

void check(const Hardware& hardware, std::string_view where) {
  check_positive(where, "peak", hardware.peak);
  check_positive(where, "memory", hardware.memory);
  check_positive(where, "memory bandwidth", hardware.memory_bandwidth);
  check_link(where, "inside", hardware.inside);
  check_link(where, "between", hardware.between);
  if (hardware.gpus_per_node < 1)
    throw InvalidInput(concat(where, " GPUs per node must be at least 1, got ", hardware.gpus_per_node));
}

void check(const Efficiency& efficiency, std::string_view where) {
  check_share(where, "linear", efficiency.linear);
  check_share(where, "experts", efficiency.experts);
  check_share(where, "attention", efficiency.attention);
  check_share(where, "memory", efficiency.memory);
  check_share(where, "links", efficiency.links);
}

}  // namespace bigmac::cost
