#pragma once

#include <string>

#include "bigmac/workload/workload.h"

namespace bigmac {

// Reads a workload's YAML, strictly: docs/workloads.md lists its fields. Paths in it are relative to its own
// folder. Throws InvalidInput as "file:line:column: ..." for unknown keys (with the nearest known one),
// missing ones, values of a wrong type or outside their range, models that cannot be read.
Workload read_workload(const std::string& path);
// The same from text. `file` names it in errors and says where relative paths begin.
Workload parse_workload(const std::string& yaml, const std::string& file);

inline constexpr size_t kMostWorkloadBytes = 1 << 20;

}  // namespace bigmac
