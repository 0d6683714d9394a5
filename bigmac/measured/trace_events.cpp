#include "bigmac/measured/trace_events.h"

#include <cmath>

#include "bigmac/common/error.h"

namespace bigmac {
namespace {

constexpr char kRight[] =
    "right would be a Chrome trace, such as torch.profiler or bigmac writes, or the pp_rank_N.json of a "
    "Primus "
    "pipeline dump";

using json::Level;
using json::Token;

class Events : public json::Visitor {
 public:
  Events(const std::string& path, const std::function<void(const TraceEvent&)>& visit)
      : path_(path), visit_(visit) {}

  TraceHead& head() { return head_; }
  bool found_events() const { return found_events_; }

  void opened(const std::vector<Level>& levels, bool is_object) override {
    if (levels.empty()) {
      depth_ = is_object ? 2 : 1;
      found_events_ = !is_object;
    }
    if (levels.size() == 1 && depth_ == 2 && levels[0].key == "traceEvents") {
      if (is_object) throw InvalidInput(concat("[trace] ", path_, ": traceEvents must be an array"));
      found_events_ = true;
    }
    if (!is_event(levels)) {
      if (in_event(levels) && levels.size() == depth_ + 3 && is_item(levels)) event_.items.emplace_back();
      return;
    }
    clear();
    event_.number = levels.back().index;
  }

  void closed(const std::vector<Level>& levels) override {
    if (is_event(levels)) visit_(event_);
  }

  void value(const std::vector<Level>& levels, const Token& token) override {
    if (!in_event(levels)) {
      if (levels.empty())
        throw InvalidInput(concat("[trace] ", path_, ": holds ", token.shown(), "; ", kRight));
      take_head(levels, token);
      return;
    }
    size_t below = levels.size() - depth_;
    if (below == 1)
      take_field(levels, token);
    else if (below == 2 && levels[depth_].key == "args")
      take_argument(levels[depth_ + 1].key, token);
    else if (below == 4 && is_item(levels) && !event_.items.empty())
      take_item(levels[depth_ + 3].key, token);
  }

 private:
  // Of a value or an object whose own level is not among them.
  bool is_event(const std::vector<Level>& levels) const {
    return levels.size() == depth_ && in_events(levels);
  }
  bool in_event(const std::vector<Level>& levels) const {
    return levels.size() > depth_ && in_events(levels);
  }
  bool in_events(const std::vector<Level>& levels) const {
    return depth_ == 1 || levels[0].key == "traceEvents";
  }
  bool is_item(const std::vector<Level>& levels) const {
    return levels[depth_].key == "args" && levels[depth_ + 1].is_object &&
           levels[depth_ + 1].key == "items" && !levels[depth_ + 2].is_object;
  }

  // Strings keep their space.
  void clear() {
    for (auto* text : {&event_.name, &event_.phase, &event_.category, &event_.process, &event_.thread,
                       &event_.module, &event_.letter})
      text->clear();
    event_.start.reset();
    event_.duration.reset();
    event_.stage = event_.chunk = event_.microbatch = event_.position = event_.unit = -1;
    event_.items.clear();
    event_.peer.reset();
    event_.bytes.reset();
    event_.free = 0;
    event_.sends = false;
    event_.device_type.reset();
  }

  void take_head(const std::vector<Level>& levels, const Token& token) {
    if (token.kind != Token::Kind::number) return;
    if (levels.size() == 2 && levels[0].key == "distributedInfo" && levels[1].key == "rank")
      head_.rank = whole(token, levels);
    if (levels.size() == 2 && levels[0].key == "otherData" && levels[1].key == "ranks")
      head_.ranks = count(token);
    if (levels.size() == 2 && levels[0].key == "otherData" && levels[1].key == "operators")
      head_.operators = count(token);
    if (levels.size() == 2 && levels[0].key == "otherData" && levels[1].key == "merged")
      head_.merged = count(token);
    if (levels.size() == 1 && levels[0].key == "baseTimeNanoseconds" && std::abs(token.number) < 9e18)
      head_.base_nanoseconds = int64_t(token.number);
  }

  void take_field(const std::vector<Level>& levels, const Token& token) {
    const auto& key = levels[depth_].key;
    if (key == "name")
      take_text(event_.name, token);
    else if (key == "ph")
      take_text(event_.phase, token);
    else if (key == "cat")
      take_text(event_.category, token);
    else if (key == "pid")
      take_text(event_.process, token);
    else if (key == "tid")
      take_text(event_.thread, token);
    else if (key == "ts")
      event_.start = time(token);
    else if (key == "dur")
      event_.duration = time(token);
  }

  void take_argument(const std::string& key, const Token& token) {
    if (token.kind == Token::Kind::text) {
      if (key == "module") event_.module.assign(token.text);
      if (key == "operator") event_.letter.assign(token.text);
    }
    if (key == "sends" && token.kind == Token::Kind::boolean) event_.sends = token.truth;
    if (token.kind != Token::Kind::number) return;
    if (key == "stage") event_.stage = count(token);
    if (key == "chunk") event_.chunk = count(token);
    if (key == "microbatch") event_.microbatch = count(token);
    if (key == "position") event_.position = count(token);
    if (key == "unit") event_.unit = count(token);
    if (key == "peer") event_.peer = token.number;
    if (key == "bytes" || key == "Total Allocated") event_.bytes = token.number;
    if (key == "free") event_.free = token.number;
    if (key == "Device Type") event_.device_type = token.number;
  }

  void take_item(const std::string& key, const Token& token) {
    if (token.kind != Token::Kind::number) return;
    if (key == "item") event_.items.back().item = count(token);
    if (key == "microbatch") event_.items.back().microbatch = count(token);
    if (key == "size") event_.items.back().size = token.number;
  }

  static void take_text(std::string& field, const Token& token) {
    if (token.kind == Token::Kind::text) field.assign(token.text);
    if (token.kind != Token::Kind::number) return;
    bool is_whole = std::abs(token.number) < 1e15 && token.number == std::floor(token.number);
    if (is_whole && token.number >= 0 && token.number < 10)
      field.assign(1, char('0' + int(token.number)));
    else
      field = is_whole ? std::to_string(int64_t(token.number)) : std::to_string(token.number);
  }
  // Null where it is none; the reader of an operator says so.
  static std::optional<double> time(const Token& token) {
    return token.kind == Token::Kind::number ? std::optional(token.number) : std::nullopt;
  }
  static int64_t count(const Token& token) {
    bool legal = token.number >= 0 && token.number <= double(INT32_MAX);
    return legal && token.number == std::floor(token.number) ? int64_t(token.number) : -1;
  }
  int64_t whole(const Token& token, const std::vector<Level>& levels) const {
    int64_t number = count(token);
    if (number < 0)
      throw InvalidInput(concat("[trace] ", path_, ": ", json::pointer(levels),
                                " must be a whole number from 0, got ", token.shown()));
    return number;
  }

  const std::string& path_;
  const std::function<void(const TraceEvent&)>& visit_;
  TraceHead head_;
  TraceEvent event_;
  size_t depth_ = 0;  // of an event: 1 in an array of events, 2 in an object that holds one
  bool found_events_ = false;
};

}  // namespace

TraceHead for_each_event(const std::string& path, const std::function<void(const TraceEvent&)>& visit,
                         bool incomplete, const json::Progress& progress) {
  Events events(path, visit);
  if (incomplete)
    events.head().cut = json::walk_what_is_there(path, events, {}, progress);
  else
    json::walk_file(path, events, {}, progress);
  if (const auto& cut = events.head().cut; cut && !events.found_events()) throw InvalidInput(cut->why);
  if (!events.found_events()) throw InvalidInput(concat("[trace] ", path, ": has no traceEvents; ", kRight));
  return events.head();
}

}  // namespace bigmac
