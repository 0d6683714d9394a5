#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "bigmac/measured/replay.h"

namespace bigmac {

// What `bigmac replay` says of a measurement.
struct ReplayReport {
  const Measurement& measurement;
  const MeasuredStep& step;                // the one in detail
  bool all = false;                        // and a line for each of the others
  std::vector<const MeasuredStep*> steps;  // over which costs are taken
  double latency = 0;                      // seconds a message, in replays
  std::optional<Replayed> other{};         // another schedule that was asked for
  Timeline shown{};                        // the replay, or the other schedule
  std::optional<size_t> waits{};           // of `shown`, to explain, a rank

  const Schedule& schedule() const { return other ? other->schedule : step.schedule; }
};

// For people: iterations, the step's figures with their errors, costs by stage, the memory fit, the other
// schedule.
std::string to_text(const ReplayReport& report);

// All of it, times in seconds.
nlohmann::ordered_json to_json(const ReplayReport& report);

// "llm-only, base zb-h1, P=8 V=1 M=16"
std::string describe(const Replayed& other);

// The timeline from 0, a second as 1000.
Timeline in_milliseconds(Timeline timeline);

}  // namespace bigmac
