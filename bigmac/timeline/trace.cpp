#include "bigmac/timeline/trace.h"

#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "bigmac/common/error.h"
#include "bigmac/schedule/dependencies.h"
#include "bigmac/schedule/labels.h"
#include "bigmac/timeline/trace_rows.h"

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

// Plain, or compressed where the path says so.
class TraceFile {
 public:
  explicit TraceFile(const std::string& path)
      : path_(path), file_(gzopen(path.c_str(), path.ends_with(".gz") ? "wb6" : "wbT")) {
    if (!file_) fail();
    gzbuffer(file_, 1 << 18);
  }
  ~TraceFile() {
    if (file_) gzclose(file_);
  }
  TraceFile(const TraceFile&) = delete;

  // How much there should be, for those who read a part of it, and how much there is no more.
  void open(size_t ranks, int64_t operators, int64_t merged) {
    write(
        concat("{\"displayTimeUnit\":\"ms\",\"otherData\":{\"ranks\":", ranks, ",\"operators\":", operators));
    if (merged > 0) write(concat(",\"merged\":", merged));
    write("},\"traceEvents\":[");
  }
  void put(const Json& event) {
    write(first_ ? "\n" : ",\n");
    first_ = false;
    // A name that is no UTF-8 is shown with a mark in its place.
    write(event.dump(-1, ' ', false, Json::error_handler_t::replace));
  }
  void close() {
    write("\n]}\n");
    if (gzclose(std::exchange(file_, nullptr)) != Z_OK) fail();
  }

 private:
  void write(std::string_view text) {
    if (gzwrite(file_, text.data(), unsigned(text.size())) != int(text.size())) fail();
  }
  [[noreturn]] void fail() {
    throw Failure(concat("[trace] cannot write '", path_, "': ", std::strerror(errno)));
  }

  std::string path_;
  gzFile file_;
  bool first_ = true;
};

class TraceWriter {
 public:
  TraceWriter(const Schedule& schedule, const Timeline& timeline, const std::string& path,
              const TraceOptions& options)
      : schedule_(schedule),
        timeline_(timeline),
        scale_(1e6 / options.second),
        labels_(schedule_),
        dependencies_(schedule_),
        rows_(shown_rows(timeline, options)),
        from_(options.from ? timeline.start + *options.from : -INFINITY),
        to_(options.to ? timeline.start + *options.to : INFINITY),
        file_(path) {
    int64_t operators = 0, merged = 0;
    for (const auto& row : rows_) {
      merged += int64_t(row.merged_count());
      operators += int64_t(row.last - row.first - row.merged_count());
    }
    flows_ = merged == 0 && options.flows.value_or(operators <= kMostWithFlows);
    file_.open(timeline_.rows.size(), operators, merged);
  }

  // `memory` by rank, as far as it is known.
  void write(const std::vector<MemoryCurve>& memory, double memory_limit) {
    for (int rank = 0; rank < int(timeline_.rows.size()); ++rank) {
      write_operators(rank);
      write_intervals(rank);
      if (size_t(rank) < memory.size()) write_memory(rank, memory[size_t(rank)], memory_limit);
    }
    if (flows_) write_flows();
    file_.close();
  }

 private:
  double at(double time) const { return (time - timeline_.start) * scale_; }

  void write_operators(int rank) {
    file_.put(metadata("process_name", rank, 0, concat("rank ", rank)));
    file_.put(metadata("thread_name", rank, 0, "operators"));
    const auto& row = rows_[size_t(rank)];
    write_singly(rank, row.first, row.merged);
    for (size_t begin = row.merged; begin < row.single; begin += kMerged)
      write_merged(rank, begin, std::min(begin + kMerged, row.single));
    write_singly(rank, row.single, row.last);
  }

  void write_singly(int rank, size_t begin, size_t end) {
    for (size_t n = begin; n < end; ++n) {
      const auto& slice = timeline_.rows[size_t(rank)].operators[n];
      Json event =
          complete(labels_(slice.op), name(slice.op.module).data(), rank, 0, at(slice.start), at(slice.end));
      event["args"] = arguments_of(schedule_, dependencies_, rank, slice.op);
      file_.put(event);
    }
  }

  // Some operators as one event, with what they took together.
  void write_merged(int rank, size_t begin, size_t end) {
    const auto& operators = timeline_.rows[size_t(rank)].operators;
    const auto &first = operators[begin], &last = operators[end - 1];
    Json event = complete(concat(end - begin, " operators, ", labels_(first.op), " to ", labels_(last.op)),
                          "merged", rank, 0, at(first.start), at(last.end));
    double busy = 0;
    std::map<std::string, double> took;
    for (size_t n = begin; n < end; ++n) {
      const auto& slice = operators[n];
      double length = slice.end - slice.start;
      busy += length;
      bool backbone = slice.op.module == Module::backbone;
      took[concat(backbone ? name(slice.op.module)
                           : schedule_.module_of(schedule_.shares.list.at(slice.op.index)).name,
                  " ", letter(slice.op.phase))] += length * scale_;
    }
    event["args"] = {{"operators", end - begin},
                     {"busy", last.end > first.start ? busy / (last.end - first.start) : 1},
                     {"microseconds", took}};
    file_.put(event);
  }

  // Whether something of that time is shown by itself.
  bool is_shown(int rank, double start, double end) const {
    const auto& row = rows_[size_t(rank)];
    const auto& operators = timeline_.rows[size_t(rank)].operators;
    if (end < from_ || start > to_ || (start < end && (end == from_ || start == to_))) return false;
    return row.merged_count() == 0 || start < operators[row.merged].start ||
           end > operators[row.single - 1].end;
  }

  void write_intervals(int rank) {
    const auto& intervals = timeline_.rows[size_t(rank)].intervals;
    if (intervals.empty()) return;
    file_.put(metadata("thread_name", rank, 1, "waits and transfers"));
    for (const auto& interval : intervals) {
      if (!is_shown(rank, interval.start, interval.end)) continue;
      auto spent = name(interval.spent);
      Json event = complete(concat(spent, " ", labels_(interval.op)), spent.data(), rank, 1,
                            at(interval.start), at(interval.end));
      event["args"] = {{"for", describe(schedule_, interval.op)}, {"peer", interval.peer}};
      if (interval.bytes > 0) event["args"]["bytes"] = interval.bytes;
      if (interval.sends) event["args"]["sends"] = true;
      file_.put(event);
    }
  }

  void write_memory(int rank, const MemoryCurve& curve, double limit) {
    const auto& [times, bytes] = curve;
    for (size_t i = 0; i < times.size(); ++i) {
      if (!is_shown(rank, times[i], times[i])) continue;
      Json held{{"bytes", bytes[i]}};
      if (limit > 0) held["free"] = std::max(0.0, limit - bytes[i]);
      file_.put(
          {{"name", "memory"}, {"ph", "C"}, {"pid", rank}, {"ts", at(times[i])}, {"args", std::move(held)}});
    }
  }

  // An arrow lies inside both of its operators, where viewers look for them. Where clocks make an operator
  // start before what it needs, there is none.
  void write_flows() {
    struct Ran {
      double start = 0, end = -1;
    };
    std::vector<Ran> ran(size_t(dependencies_.count()));
    for (int rank = 0; rank < int(timeline_.rows.size()); ++rank)
      for (const auto& slice : timeline_.rows[size_t(rank)].operators)
        if (is_shown(rank, slice.start, slice.end))
          ran[size_t(dependencies_.of(rank, slice.op))] = {slice.start, slice.end};
    int64_t id = 0;
    auto put = [&](const char* phase, int rank, double time) {
      Json event{{"name", "needs"}, {"cat", "dependency"}, {"ph", phase}, {"id", id}, {"pid", rank},
                 {"tid", 0},        {"ts", at(time)}};
      if (*phase == 'f') event["bp"] = "e";
      file_.put(event);
    };
    for (int rank = 0; rank < int(timeline_.rows.size()); ++rank)
      for (const auto& slice : timeline_.rows[size_t(rank)].operators)
        dependencies_.for_each_predecessor(rank, slice.op, [&](int64_t of, int from) {
          const auto& [start, end] = ran[size_t(of)];
          if (from == rank || end < start || slice.start < start) return;
          if (!is_shown(rank, slice.start, slice.end)) return;
          ++id;
          put("s", from, std::min(slice.start, start + 0.99 * (end - start)));
          put("f", rank, slice.start);
        });
  }

  const Schedule& schedule_;
  const Timeline& timeline_;
  double scale_;
  Labels labels_;
  Dependencies dependencies_;
  std::vector<ShownRow> rows_;
  double from_, to_;
  TraceFile file_;
  bool flows_ = false;
};

}  // namespace

void write_trace(const Recording& recording, const std::string& path, const TraceOptions& options) {
  TraceWriter(recording.schedule, recording.timeline, path, options)
      .write(recording.memory, recording.memory_limit);
}

void write_trace(const Schedule& schedule, const Timeline& timeline, const std::string& path, double second) {
  TraceWriter(schedule, timeline, path, {.second = second}).write({}, 0);
}

}  // namespace bigmac
