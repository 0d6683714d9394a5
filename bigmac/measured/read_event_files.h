#pragma once

#include <string>
#include <vector>

#include "bigmac/measured/raw_step.h"
#include "bigmac/measured/read_measured.h"

namespace bigmac {

// Reads the steps of event files (bigmac/profile/event_file.h), files of any ranks and steps of one run, on
// rank 0's clock. Where the run stopped within a step, notes say what each rank did last. Throws InvalidInput
// as read_events does, for files of different runs, and where no step was begun; without `left` also for a
// step that lacks ranks.
std::vector<RawStep> read_event_files(const std::vector<std::string>& paths, std::vector<std::string>& notes,
                                      LeftOut* left);

}  // namespace bigmac
