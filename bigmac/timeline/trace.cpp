#include "bigmac/timeline/trace.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "bigmac/common/error.h"

namespace bigmac {
namespace {

using Json = nlohmann::ordered_json;

Json metadata(const char* kind, int rank, int thread, const std::string& label) {
  return {{"name", kind}, {"ph", "M"}, {"pid", rank}, {"tid", thread}, {"args", {{"name", label}}}};
}

Json complete(const std::string& label, const char* category, int rank, int thread, double start,
              double end) {
  return {{"name", label}, {"cat", category}, {"ph", "X"},         {"pid", rank},
          {"tid", thread}, {"ts", start},     {"dur", end - start}};
}

}  // namespace

void write_trace(const Timeline& timeline, const std::string& path, double second) {
  double scale = 1e6 / second;
  auto at = [&](double time) { return (time - timeline.start) * scale; };
  std::ofstream out(path);
  const char* separator = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n";
  auto put = [&](const Json& event) {
    out << separator << event.dump();
    separator = ",\n";
  };
  for (int rank = 0; rank < int(timeline.rows.size()); ++rank) {
    const auto& row = timeline.rows[rank];
    put(metadata("process_name", rank, 0, concat("rank ", rank)));
    put(metadata("thread_name", rank, 0, "operators"));
    for (const auto& slice : row.operators) {
      Json event = complete(short_name(slice.op), name(slice.op.module).data(), rank, 0, at(slice.start),
                            at(slice.end));
      event["args"] = {{"module", name(slice.op.module)},
                       {"operator", letter(slice.op.phase)},
                       {"chunk", slice.op.chunk},
                       {"microbatch", slice.op.microbatch}};
      put(event);
    }
    if (row.intervals.empty()) continue;
    put(metadata("thread_name", rank, 1, "waits and transfers"));
    for (const auto& interval : row.intervals) {
      const char* spent = interval.spent == Spent::wait ? "wait" : "transfer";
      Json event = complete(concat(spent, " ", short_name(interval.op)), spent, rank, 1, at(interval.start),
                            at(interval.end));
      event["args"] = {{"for", long_name(interval.op)}, {"peer", interval.peer}};
      put(event);
    }
  }
  if (timeline.rows.empty()) out << separator;
  out << "\n]}\n";
  out.close();
  if (!out) throw Failure(concat("[trace] cannot write '", path, "': ", std::strerror(errno)));
}

}  // namespace bigmac
