#include "tests/controls/settings.h"

namespace bigmac {
namespace {

constexpr Arrangement kArrangements[] = {
    Arrangement::nested,   Arrangement::nested_fill, Arrangement::three_phase, Arrangement::optimus,
    Arrangement::megatron, Arrangement::disttrain,   Arrangement::llm_only};

Controls with(std::optional<Base> base, int64_t chunks, Arrangement arrangement) {
  Controls controls;
  controls.ranks = 4;
  controls.chunks = chunks;
  controls.microbatches = 10;
  controls.base = base;
  controls.arrangement = arrangement;
  controls.encoder = {.forward = 0.37, .backward = 0.81, .items = 3};
  controls.generator = {.forward = 1.3, .backward = 2.9, .items = 2};
  return controls;
}

}  // namespace

std::vector<Controls> legal_settings() {
  std::vector<Controls> settings;
  const std::pair<std::optional<Base>, int64_t> shapes[] = {
      {std::nullopt, 1}, {std::nullopt, 3}, {Base::gpipe, 1},      {Base::gpipe, 2},
      {Base::zb_h1, 1},  {Base::zb_v, 2},   {Base::dualpipe_v, 2}, {Base::interleaved, 2},
  };
  for (const auto& [base, chunks] : shapes)
    for (auto arrangement : kArrangements) settings.push_back(with(base, chunks, arrangement));
  auto larger = with(std::nullopt, 2, Arrangement::nested_fill);
  larger.ranks = 8;
  larger.microbatches = 64;
  larger.latency = 0.0123;
  larger.warmup_units = 4;
  larger.encoder = {.forward = 0.5, .backward = 1, .items = 8};
  settings.push_back(larger);
  auto split = with(Base::zb_v, 2, Arrangement::nested);
  split.weight = 0.7;
  split.backward = 2.1;
  split.generator_unit = 2;
  settings.push_back(split);
  auto grouped = with(Base::interleaved, 2, Arrangement::optimus);
  grouped.group = 5;
  grouped.generator = {};
  settings.push_back(grouped);
  return settings;
}

}  // namespace bigmac
