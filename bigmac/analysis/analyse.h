#pragma once

#include <optional>
#include <string>

#include "bigmac/analysis/against.h"
#include "bigmac/analysis/causes.h"
#include "bigmac/analysis/peaks.h"
#include "bigmac/analysis/suggest.h"
#include "bigmac/analysis/waits.h"
#include "bigmac/measured/fit.h"

namespace bigmac {

// Everything that `bigmac report` says of a step. Times are in the recording's unit; shares are of the step,
// or of all ranks' time (P * step) where it says so.
struct Analysis {
  std::string verdict;  // a sentence: what costs most, and how much
  bool whole = true;    // else causes, path, suggestions and gap are left out: they need the whole step
  double step = 0;
  double idle_over_total = 0, idle_over_busy = 0;  // timeline.h: idle is everything outside operators
  std::vector<RankTime> ranks;
  bool waits_recorded = false;  // else wait is derived from what operators needed (waits.h)
  Causes causes;
  std::vector<WaitGroup> waits;
  PathSummary path;
  std::vector<StageTimes> stages;        // by stage and phase
  std::vector<ModuleTimes> modules;      // for an item of size 1
  std::optional<double> unit_imbalance;  // slowest rank's time in the units / the units' mean
  std::vector<MemoryPeak> peaks;
  Suggestions suggestions;
  double base_bubble = 0;  // share of the step: the part of causes.ramp that the base's own table has
  StepGap gap;
  std::vector<std::string> notes;  // what is missing, what was assumed
};

// Of a recording that lacks operators (Recording::missing): where each rank's time goes, what its waits can
// be judged by, costs and memory. Throws InvalidInput for a recording whose timeline is not of its schedule,
// without any operator, or whose stages are not as many as the layout's.
Analysis analyse(const Recording& recording, const AnalysisOptions& options = {});

}  // namespace bigmac
