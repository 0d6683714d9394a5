#pragma once

#include <string>
#include <vector>

#include "bigmac/schedule/table.h"

namespace bigmac {

// What a table that was read lacks of a whole step, or what keeps it from running, in words; empty where
// check() finds nothing. The table's operators must be of its step, each at most once.
std::vector<std::string> what_is_missing(const Schedule& schedule);

}  // namespace bigmac
