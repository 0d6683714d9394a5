#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bigmac/command/arguments.h"
#include "bigmac/measured/read_measured.h"
#include "bigmac/schedule/costs.h"
#include "bigmac/timeline/recording.h"

namespace bigmac {

// What tables are simulated with, and how measured files are read.
struct RecordingOptions {
  WorkTimes backbone{1, 2, {}};
  WorkTimes encoder{0.5, 1, {}}, generator{1, 2, {}};  // of an item of size 1
  double latency = 0;
  std::optional<int64_t> iteration;  // of measured steps; else the typical one
  ReadOptions read;
};

// --iteration, --measured-vpp, ...; --backbone, --encoder, ...
void add_recording_options(CLI::App& command, RecordingOptions& options);

// What a table's step is simulated with.
Costs costs_of(const Step& step, const RecordingOptions& options);

// One step out of a file: a table (read_table.h), simulated with unit costs, or else what was measured
// (read_measured.h); a folder is one measured run. `name` is what it is called: empty, the file's own name.
Recording read_recording(const std::string& path, const std::string& name, const RecordingOptions& options);

// On standard error, where the step is not whole.
void print_notes_of_damage(const Recording& recording);

}  // namespace bigmac
