#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "bigmac/measured/json_stream.h"
#include "bigmac/measured/raw_step.h"

namespace bigmac {

// One event of a Chrome trace, as far as it is of use here.
struct TraceEvent {
  int64_t number = 0;   // in traceEvents
  std::string name{};   // as it is written
  std::string phase{};  // "X" complete, "B" begin, "E" end; others have no duration
  std::string category{};
  std::string process{}, thread{};
  std::optional<double> start{}, duration{};  // microseconds

  // What write_trace (bigmac/timeline/trace.h) adds as args.
  std::string module{}, letter{};
  int64_t stage = -1, chunk = -1, microbatch = -1, position = -1, unit = -1;
  std::vector<RawItem> items{};
  std::optional<double> peer{};  // of a wait or transfer; -1: several
  bool sends = false;            // of a transfer: it left the rank
  std::optional<double>
      bytes{};      // of a message; of a counter: held; of torch.profiler's [memory]: Total Allocated
  double free = 0;  // of a counter: what may be held besides
  std::optional<double> device_type{};  // of torch.profiler's [memory]: 0 for the CPU
};

// What stands beside the events.
struct TraceHead {
  std::optional<int64_t> rank{};  // distributedInfo.rank, as torch.profiler writes it
  int64_t base_nanoseconds = 0;   // baseTimeNanoseconds: what times count from
  int64_t ranks = -1;             // otherData.ranks, operators: how many write_trace wrote
  int64_t operators = -1;
  int64_t merged = 0;                // and how many it put together
  std::optional<json::Break> cut{};  // where the file stops being readable
};

// Calls visit(event) for each of the events of a trace: an object with "traceEvents", or an array of events.
// The event is valid during the call. Throws InvalidInput as walk_file does, and for a file without events;
// `incomplete` reads up to where the file stops being readable.
TraceHead for_each_event(const std::string& path, const std::function<void(const TraceEvent&)>& visit,
                         bool incomplete = false, const json::Progress& progress = {});

}  // namespace bigmac
