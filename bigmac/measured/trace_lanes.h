#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "bigmac/measured/raw_step.h"

namespace bigmac {

// The operators that one thread (or GPU stream) of a trace ran, times as they are written: microseconds.
struct Lane {
  std::string process, thread;
  bool on_gpu = false;
  bool cpu_range = false;  // a profiler's range on the CPU (user_annotation, python_function)
  std::vector<RawOperator> operators{};
};

// What is found in one file.
struct TraceFile {
  std::string path;
  std::optional<int64_t> rank{};  // that it says of itself
  int64_t base_nanoseconds = 0;
  std::vector<Lane> lanes{};
  std::vector<RawShare> shares{};
  // Of bigmac's own trace, by process: when its first event starts and its last ends, waits included.
  bool own = false;
  std::map<std::string, std::pair<double, double>> spans{};
  int64_t events = 0;
};

// Throws InvalidInput naming file and event, as for_each_event does and for operators with times that are not
// there or negative, begin events without an end, and a file without any operator.
TraceFile read_lanes(const std::string& path);

}  // namespace bigmac
