#pragma once

#include <optional>

#include "bigmac/measured/read_measured.h"
#include "bigmac/timeline/recording.h"

namespace bigmac {

// A measured step to look at, with the waits, transfers and memory that were recorded. Where the clocks of
// its ranks cannot be compared, its timeline is the replay of its operators, and a note says so.
Recording recording_of(const MeasuredStep& step, const std::string& source);

// Reads one step from files (read_measured.h): the one of that name, or the typical one. What there is of
// files and steps that are not whole is read; Recording::notes say what was left out, Recording::missing what
// the step lacks. Throws as read_measured and step_named do.
Recording recorded_step(const std::vector<std::string>& paths, ReadOptions options = {},
                        const std::optional<std::string>& name = {});

}  // namespace bigmac
