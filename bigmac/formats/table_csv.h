#pragma once

#include <string>
#include <string_view>

#include "bigmac/schedule/table.h"

namespace bigmac {

// A whole Schedule as CSV for awk and pandas (docs/formats.md): the step and the units as JSON in lines that
// begin with '#', then an operator a line, rank by rank, in order. Text that is read back gives the same
// Schedule, sizes to the last bit.
//
// Writing takes a table whose shares are of modules and items that it has, each with an operator; it throws
// InvalidInput for a module's name that CSV cannot hold as it stands: empty, not UTF-8, or with a comma, a
// quote, a '#' or a control character. Reading is strict: whatever is not as the writer writes it is
// InvalidInput as "[csv] file:17:5: chunk ...", line and column counted from 1. What has been read may have
// any fault that check() tells, and no other.
std::string to_csv(const Schedule& schedule);
Schedule parse_csv(std::string_view text, const std::string& file);

}  // namespace bigmac
