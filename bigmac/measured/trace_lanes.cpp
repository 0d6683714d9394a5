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
  explicit Collector(const std::string& path) { file_.path = path; }

  void take(const TraceEvent& event) {
    ++file_.events;
    if (event.phase == "X")
      take_complete(event);
    else if (event.phase == "B")
      open_[{event.process, event.thread}].push_back(begin_of(event));
    else if (event.phase == "E")
      take_end(event);
  }

  TraceFile finish(const TraceHead& head) {
    for (const auto& [lane, begins] : open_)
      for (const auto& begin : begins)
        if (begin.op)
          throw InvalidInput(concat("[trace] ", file_.path, ": event ", begin.number, " (", begin.name,
                                    ") begins and never ends; the trace stops within a step"));
    file_.rank = head.rank;
    file_.base_nanoseconds = head.base_nanoseconds;
    if (file_.lanes.empty())
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

  Lane& lane_of(const TraceEvent& event) {
    bool on_gpu = event.category == "gpu_user_annotation";
    auto [at, is_new] =
        lane_number_.emplace(std::tuple(on_gpu, event.process, event.thread), file_.lanes.size());
    if (is_new) file_.lanes.push_back({event.process, event.thread, on_gpu});
    auto& lane = file_.lanes[at->second];
    lane.cpu_range |= event.category == "user_annotation" || event.category == "python_function";
    return lane;
  }

  void add(const TraceEvent& event, RawOperator op, double start, double end) {
    if (++count_ > kMostOperatorsRead)
      throw InvalidInput(
          concat("[trace] ", file_.path, ": has more than ", kMostOperatorsRead, " operators"));
    if (!std::isfinite(start) || !std::isfinite(end)) fail(event, "has a time that is not finite");
    op.start = start;
    op.end = end;
    lane_of(event).operators.push_back(op);
  }

  void take_complete(const TraceEvent& event) {
    auto op = operator_of(event);
    bool of_own = event.category == "wait" || event.category == "transfer" || event.category == "order";
    if (!op && !of_own) return;
    if (!event.start || !event.duration) {
      if (!op) return;
      fail(event, event.start ? "lacks dur, a number of microseconds" : "lacks ts, a number of microseconds");
    }
    if (*event.duration < 0) fail(event, concat("takes ", *event.duration, " microseconds"));
    auto& span = file_.spans.emplace(event.process, std::pair(*event.start, *event.start)).first->second;
    span.first = std::min(span.first, *event.start);
    span.second = std::max(span.second, *event.start + *event.duration);
    if (op) add(event, *op, *event.start, *event.start + *event.duration);
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

  TraceFile file_;
  size_t count_ = 0;
  std::map<std::pair<std::string, std::string>, std::vector<Begin>> open_;
  std::map<std::tuple<bool, std::string, std::string>, size_t> lane_number_;
  std::map<std::tuple<std::string, std::string, int64_t, int64_t>, int32_t> share_number_;
};

}  // namespace

TraceFile read_lanes(const std::string& path) {
  Collector collector(path);
  auto head = for_each_event(path, [&](const TraceEvent& event) { collector.take(event); });
  return collector.finish(head);
}

}  // namespace bigmac
