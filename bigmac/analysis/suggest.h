#pragma once

#include <string>
#include <vector>

#include "bigmac/analysis/options.h"
#include "bigmac/timeline/recording.h"

namespace bigmac {

// Something to change in the schedule or the model's split, made and simulated with the step's mean costs.
enum class Change : uint8_t { split, warmup_units, order, generator_unit, arrangement, chunks, base };
std::string_view name(Change change);  // split, W, order, generator unit, arrangement, V, base

struct Suggestion {
  Change change = Change::split;
  std::string text;           // "V = 2: every stage in 2 equal chunks, interleaved 1F1B"
  double step = 0;            // in the timeline's unit, what it would take
  double gain = 0;            // 1 - that / what the step's own table takes with the same costs
  std::string condition;      // what it asks for or assumes; may be empty
  bool saves_memory = false;  // that is all it does: gain is 0
};

struct Suggestions {
  double own = 0;                     // the own table with mean costs and `latency`
  double latency = 0;                 // of a message, as measured
  std::string base, arrangement;      // what the step is run as: names, "custom" where it is none of ours
  std::vector<int64_t> warmup_units;  // by module, as they are; 0 where that is not known
  std::vector<Suggestion> list;       // gains above kLeastGain, the largest first
  // What the base's own table leaves idle a rank, its stages alike and messages free: no order of its
  // operators avoids it. 0 where the base is not known.
  double base_bubble = 0;
  int64_t tried = 0, left_out = 0;  // left out: too large to be made in time
};

inline constexpr double kLeastGain = 0.01;

Suggestions suggest(const Recording& recording, double latency, const AnalysisOptions& options = {});

}  // namespace bigmac
