#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "bigmac/measured/json_stream.h"
#include "bigmac/measured/raw_step.h"

namespace bigmac {

// The operators that one thread (or GPU stream) of a trace ran, times as they are written: microseconds.
struct Lane {
  std::string process, thread;
  bool on_gpu = false;
  bool cpu_range = false;  // a profiler's range on the CPU (user_annotation, python_function)
  std::vector<RawOperator> operators{};
};

// What else one process of a trace says, in its microseconds.
struct TraceProcess {
  std::optional<std::pair<double, double>> span{};  // operators, waits and transfers
  std::vector<RawInterval> intervals{};             // of bigmac's own traces
  MemoryCurve memory{}, cpu_memory{};  // counters of bigmac's own; torch.profiler's, of the GPU and the CPU
  double memory_limit = 0;
};

// What is found in one file.
struct TraceFile {
  std::string path;
  std::optional<int64_t> rank{};  // that it says of itself
  int64_t base_nanoseconds = 0;
  std::vector<Lane> lanes{};
  std::vector<RawShare> shares{};
  bool own = false;  // bigmac's own trace
  std::map<std::string, TraceProcess> processes{};
  int64_t events = 0, operators = 0;
  int64_t ranks_written = -1, operators_written = -1;  // by bigmac, where it says so
  int64_t operators_merged = 0;
  std::optional<json::Break> cut{};  // where the file stops being readable
};

// Throws InvalidInput naming file and event, as for_each_event does and for operators with times that are not
// there or negative, begin events without an end, and a file without any operator. With `left` such events
// are left out instead, and the file is read as far as it goes.
TraceFile read_lanes(const std::string& path, LeftOut* left = nullptr, const json::Progress& progress = {});

}  // namespace bigmac
