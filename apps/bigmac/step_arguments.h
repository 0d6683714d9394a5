#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bigmac/command/arguments.h"
#include "bigmac/schedule/costs.h"
#include "bigmac/schedule/step.h"

namespace bigmac {

// A step and what it takes, as `schedule` and `simulate` let it be declared.
struct StepArguments {
  int64_t ranks = 0;
  std::optional<int64_t> chunks;  // default: 1, or what the layout has
  int64_t microbatches = 0;
  std::optional<Base> base;  // default: 1f1b with one chunk, else interleaved
  int64_t group = 0;
  std::optional<Arrangement> arrangement;  // default: nested with an encoder or generator, else llm-only
  std::vector<NamedText> warmup_units;
  int64_t generator_unit = 0;
  std::string order = "as-is";
  bool no_spread = false;

  std::vector<NamedText> encoders, generators;  // times
  std::vector<std::string> frozen;              // encoders
  std::vector<NamedText> items;
  std::optional<int64_t> seed;

  WorkTimes backbone{1, 2, {}};
  std::optional<std::string> layout;
  std::optional<int64_t> layers;
  WorkTimes embedding, head;
  double latency = 0;
};

void add_step_options(CLI::App& command, StepArguments& arguments);

struct DeclaredStep {
  Step step;
  Costs costs;
};

// Notes on stderr say which arguments have no effect. Throws InvalidInput for what is not legal.
DeclaredStep declare_step(const StepArguments& arguments);

}  // namespace bigmac
