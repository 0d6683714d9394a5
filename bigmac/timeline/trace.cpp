#include "bigmac/timeline/trace.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "bigmac/common/error.h"
#include "bigmac/schedule/dependencies.h"
#include "bigmac/schedule/labels.h"

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

// Microbatches as they were declared, and where they stand in the schedule. The stage where the rank does not
// give it away.
Json arguments_of(const Schedule& schedule, const Dependencies& dependencies, int rank, const Operator& op) {
  const Step& step = schedule.step;
  if (op.module == Module::backbone) {
    Json json{{"module", name(op.module)},
              {"operator", letter(op.phase)},
              {"chunk", op.chunk},
              {"microbatch", step.declared(op.index)},
              {"position", op.index}};
    if (int64_t stage = dependencies.stage(rank, op.chunk); stage != op.chunk * step.ranks + rank)
      json["stage"] = stage;
    return json;
  }
  const Share& share = schedule.shares.list.at(op.index);
  const auto& module = schedule.module_of(share);
  auto items = Json::array();
  for (uint32_t item : schedule.shares.items_of(share))
    items.push_back({{"item", item},
                     {"microbatch", step.declared(module.items[item].microbatch)},
                     {"size", module.items[item].size}});
  return {{"module", module.name},
          {"operator", letter(op.phase)},
          {"unit", share.unit},
          {"items", std::move(items)}};
}

}  // namespace

void write_trace(const Schedule& schedule, const Timeline& timeline, const std::string& path, double second) {
  double scale = 1e6 / second;
  Labels labels(schedule);
  Dependencies dependencies(schedule);
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
      Json event =
          complete(labels(slice.op), name(slice.op.module).data(), rank, 0, at(slice.start), at(slice.end));
      event["args"] = arguments_of(schedule, dependencies, rank, slice.op);
      put(event);
    }
    if (row.intervals.empty()) continue;
    put(metadata("thread_name", rank, 1, "waits and transfers"));
    for (const auto& interval : row.intervals) {
      auto spent = name(interval.spent);
      Json event = complete(concat(spent, " ", labels(interval.op)), spent.data(), rank, 1,
                            at(interval.start), at(interval.end));
      event["args"] = {{"for", describe(schedule, interval.op)}, {"peer", interval.peer}};
      put(event);
    }
  }
  if (timeline.rows.empty()) out << separator;
  out << "\n]}\n";
  out.close();
  if (!out) throw Failure(concat("[trace] cannot write '", path, "': ", std::strerror(errno)));
}

}  // namespace bigmac
