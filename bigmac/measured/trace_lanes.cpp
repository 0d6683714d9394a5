#include "bigmac/measured/trace_lanes.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "bigmac/common/error.h"
#include "bigmac/common/names.h"
#include "bigmac/formats/in_quotes.h"
#include "bigmac/formats/table_header.h"
#include "bigmac/measured/operator_name.h"
#include "bigmac/measured/trace_events.h"

namespace bigmac {
namespace {

constexpr size_t kMostOperatorsRead = size_t{1} << 24;

class Collector {
 public:
  Collector(const std::string& path, LeftOut* left) : left_(left) { file_.path = path; }

  void take(const TraceEvent& event) {
    ++file_.events;
    if (left_ == nullptr) return take_any(event);
    try {
      take_any(event);
    } catch (const InvalidInput& error) {
      left_->add("events that cannot be read are left out", error.what());
    }
  }

  TraceFile finish(const TraceHead& head) {
    for (const auto& [lane, begins] : open_)
      for (const auto& begin : begins) {
        if (!begin.op) continue;
        auto text = concat("[trace] ", file_.path, ": event ", begin.number, " (", begin.name,
                           ") begins and never ends; the trace stops within a step");
        if (left_ == nullptr) throw InvalidInput(text);
        left_->add("operators without an end are left out", text);
      }
    file_.rank = head.rank;
    file_.base_nanoseconds = head.base_nanoseconds;
    file_.ranks_written = head.ranks;
    file_.operators_written = head.operators;
    file_.operators_merged = head.merged;
    file_.cut = head.cut;
    for (const auto& lane : file_.lanes) file_.operators += int64_t(lane.operators.size());
    if (file_.operators == 0 && head.cut) throw InvalidInput(head.cut->why);
    if (file_.operators == 0)
      throw InvalidInput(
          concat("[trace] ", file_.path, ": none of its ", file_.events,
                 " events is named as an operator of a pipeline; understood are ", kOperatorNames,
                 ". Wrap each microbatch's forward and backward in torch.profiler.record_function, or let "
                 "with_stack record Megatron's schedules.py"));
    return std::move(file_);
  }

 private:
  struct Begin {
    int64_t number;
    std::string name;
    std::optional<RawOperator> op;
  };

  void take_any(const TraceEvent& event) {
    if (event.phase == "X")
      take_complete(event);
    else if (event.phase == "B")
      open_[{event.process, event.thread}].push_back(begin_of(event));
    else if (event.phase == "E")
      take_end(event);
    else if (event.bytes && (event.phase == "C" || event.name == "[memory]"))
      take_memory(event);
  }

  [[noreturn]] void fail(const TraceEvent& event, const std::string& what) const {
    throw InvalidInput(
        concat("[trace] ", file_.path, ": event ", event.number, " (", escaped(event.name), "): ", what));
  }

  // The operator that an event is, if any.
  std::optional<RawOperator> operator_of(const TraceEvent& event) {
    RawOperator op;
    if (!event.letter.empty() && !event.module.empty()) {
      file_.own = true;
      op.phase = phase(event);
      op.stage = event.stage;
      op.chunk = event.chunk;
      op.microbatch = event.microbatch;
      op.position = event.position;
      bool nested = event.module != name(Module::backbone);
      if (nested) op.share = share_of(event);
      if (!nested && (op.chunk < 0 || op.microbatch < 0 || op.position < 0))
        fail(event, "lacks chunk, microbatch or position, whole numbers from 0");
      return op;
    }
    auto name = parse_operator_name(event.name);
    if (!name) return {};
    op.phase = name->phase;
    op.stage = name->stage;
    op.chunk = name->chunk;
    op.microbatch = name->microbatch;
    return op;
  }

  Phase phase(const TraceEvent& event) const {
    try {
      return phase_from_letter(event.letter);
    } catch (const InvalidInput& error) {
      fail(event, concat("operator ", error.what()));
    }
  }

  // An encoder's forward and backward have the same share.
  int32_t share_of(const TraceEvent& event) {
    if (event.items.empty()) fail(event, "lacks its items");
    if (event.unit < 0) fail(event, "lacks its unit, a whole number from 0");
    Module kind = Module::encoder;
    try {
      kind = module_from_name(event.category);
    } catch (const InvalidInput& error) {
      fail(event, concat("cat: ", error.what()));
    }
    auto key = std::tuple(event.process, event.module, event.unit, event.items[0].item);
    auto [at, is_new] = share_number_.emplace(key, int32_t(file_.shares.size()));
    if (is_new) file_.shares.push_back({event.module, kind, event.unit, event.items});
    return at->second;
  }

  // Events of a lane mostly stand together.
  Lane& lane_of(const TraceEvent& event) {
    bool on_gpu = event.category == "gpu_user_annotation";
    if (last_lane_ < file_.lanes.size()) {
      auto& lane = file_.lanes[last_lane_];
      if (lane.on_gpu == on_gpu && lane.process == event.process && lane.thread == event.thread) return lane;
    }
    auto [at, is_new] =
        lane_number_.emplace(std::tuple(on_gpu, event.process, event.thread), file_.lanes.size());
    if (is_new) file_.lanes.push_back({event.process, event.thread, on_gpu});
    last_lane_ = at->second;
    return file_.lanes[last_lane_];
  }
  TraceProcess& process_of(const TraceEvent& event) {
    if (last_process_ == nullptr || last_name_ != event.process) {
      last_process_ = &file_.processes[event.process];
      last_name_ = event.process;
    }
    return *last_process_;
  }

  void add(const TraceEvent& event, RawOperator op, double start, double end) {
    if (++count_ > kMostOperatorsRead)
      throw InvalidInput(
          concat("[trace] ", file_.path, ": has more than ", kMostOperatorsRead, " operators"));
    if (!std::isfinite(start) || !std::isfinite(end)) fail(event, "has a time that is not finite");
    if (left_ != nullptr && is_absurd(start, end))
      fail(event, concat("runs from ", start, " to ", end, " microseconds, which no clock says"));
    op.start = start;
    op.end = end;
    auto& lane = lane_of(event);
    lane.cpu_range |= event.category == "user_annotation" || event.category == "python_function";
    lane.operators.push_back(op);
    widen(process_of(event), start, end);
  }
  // Microseconds: further than 3000 years from where clocks count from, or 3 years long.
  static bool is_absurd(double start, double end) {
    return std::abs(start) > 1e17 || std::abs(end) > 1e17 || end - start > 1e14;
  }
  static void widen(TraceProcess& process, double start, double end) {
    if (!process.span) process.span = {start, end};
    process.span->first = std::min(process.span->first, start);
    process.span->second = std::max(process.span->second, end);
  }

  static std::optional<Spent> spent_of(const TraceEvent& event) {
    for (auto spent : {Spent::transfer, Spent::wait, Spent::order})
      if (event.category == name(spent)) return spent;
    return {};
  }
  void take_interval(const TraceEvent& event, Spent spent) {
    if (!event.start || !event.duration) return;
    double start = *event.start, end = start + *event.duration;
    if (*event.duration < 0) fail(event, concat("takes ", *event.duration, " microseconds"));
    if (left_ != nullptr && is_absurd(start, end))
      fail(event, concat("runs from ", start, " to ", end, " microseconds, which no clock says"));
    auto& process = process_of(event);
    widen(process, start, end);
    if (!event.peer) return;
    bool is_rank = *event.peer >= 0 && *event.peer <= INT32_MAX;
    auto at = event.name.find(' ');
    auto bytes = event.bytes && *event.bytes > 0 && *event.bytes < 9e18 ? int64_t(*event.bytes) : 0;
    process.intervals.push_back({spent, is_rank ? int64_t(*event.peer) : -1, start, end,
                                 at == std::string::npos ? std::string() : event.name.substr(at + 1), bytes,
                                 event.sends});
  }
  void take_memory(const TraceEvent& event) {
    if (!event.start || is_absurd(*event.start, *event.start)) return;
    auto& process = process_of(event);
    auto& curve = event.device_type == 0.0 ? process.cpu_memory : process.memory;
    curve.times.push_back(*event.start);
    curve.bytes.push_back(*event.bytes);
    if (event.free > 0) process.memory_limit = *event.bytes + event.free;
  }

  void take_complete(const TraceEvent& event) {
    auto op = operator_of(event);
    if (!op) {
      if (auto spent = spent_of(event)) take_interval(event, *spent);
      return;
    }
    if (!event.start || !event.duration)
      fail(event, event.start ? "lacks dur, a number of microseconds" : "lacks ts, a number of microseconds");
    if (*event.duration < 0) fail(event, concat("takes ", *event.duration, " microseconds"));
    add(event, *op, *event.start, *event.start + *event.duration);
  }

  Begin begin_of(const TraceEvent& event) {
    auto op = operator_of(event);
    if (!op) return {event.number, {}, {}};
    if (!event.start) fail(event, "lacks ts, a number of microseconds");
    op->start = *event.start;
    return {event.number, escaped(event.name), op};
  }

  void take_end(const TraceEvent& event) {
    auto at = open_.find({event.process, event.thread});
    if (at == open_.end() || at->second.empty()) return;  // its begin was before the trace
    auto begin = std::move(at->second.back());
    at->second.pop_back();
    if (!begin.op) return;
    if (!event.start) fail(event, concat("lacks ts, the end of event ", begin.number, " (", begin.name, ")"));
    if (*event.start < begin.op->start)
      fail(event, concat("is the end of event ", begin.number, " (", begin.name, ") and ",
                         begin.op->start - *event.start, " microseconds before it"));
    add(event, *begin.op, begin.op->start, *event.start);
  }

  LeftOut* left_;
  TraceFile file_;
  size_t count_ = 0, last_lane_ = 0;
  TraceProcess* last_process_ = nullptr;
  std::string last_name_{};
  std::map<std::pair<std::string, std::string>, std::vector<Begin>> open_;
  std::map<std::tuple<bool, std::string, std::string>, size_t> lane_number_;
  std::map<std::tuple<std::string, std::string, int64_t, int64_t>, int32_t> share_number_;
};

}  // namespace

TraceFile read_lanes(const std::string& path, LeftOut* left, const json::Progress& progress) {
  Collector collector(path, left);
  auto head = for_each_event(
      path, [&](const TraceEvent& event) { collector.take(event); }, left != nullptr, progress);
  return collector.finish(head);
}

}  // namespace bigmac
