#pragma once

#include "bigmac/command/arguments.h"
#include "bigmac/measured/read_measured.h"

namespace bigmac {

// --measured-vpp, --measured-group, --measured-microbatches: what files of measured steps may not say.
void add_reading_options(CLI::App& command, ReadOptions& options);

// With a bar on a terminal while large files are read.
ReadOptions with_progress(ReadOptions options);

}  // namespace bigmac
