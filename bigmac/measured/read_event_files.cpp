#include "bigmac/measured/read_event_files.h"

#include <algorithm>
#include <cmath>
#include <ctime>
#include <map>
#include <optional>

#include "bigmac/common/error.h"
#include "bigmac/measured/number_ranks.h"
#include "bigmac/profile/read_events.h"

namespace bigmac {
namespace {

std::string shown(const Profiled& of, const Doing& doing) {
  const auto& op = doing.op;
  auto text = concat(letter(op.phase), " ");
  if (doing.module >= 0 && doing.module < int64_t(of.modules.size()))
    return concat(of.modules[size_t(doing.module)].name, " ", text, "unit ", doing.number);
  return concat("LLM ", text, "stage ", doing.number, " microbatch ", doing.microbatch);
}

std::string shown_seconds(double seconds) {
  return seconds < 1 ? concat(double(std::lround(seconds * 1e4)) / 10, " ms")
                     : concat(double(std::lround(seconds * 100)) / 100, " s");
}

// "2026-03-01 12:30:00 UTC"
std::string shown_time(double utc) {
  auto seconds = std::time_t(utc);
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  char text[32];
  return {text, std::strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S UTC", &parts)};
}

// "rank 2: waits for rank 1, for LLM F stage 2 microbatch 5, for 3.2 s"
std::string last_words(const EventStep& step, double last) {
  const auto& doing = step.doing;
  auto rank = concat("rank ", step.of.rank, ": "), of = shown(step.of, doing);
  auto since = concat(", for ", shown_seconds(std::max(0.0, last - step.clock.to_reference(doing.since))));
  switch (doing.activity) {
    case Activity::compute:
      return concat(rank, "within ", of, since);
    case Activity::wait:
      return concat(rank, "waits for a message of rank ", doing.peer, " to run ", of, since);
    case Activity::send:
      return concat(rank, "sends to rank ", doing.peer, " what ", of, " made", since);
    case Activity::receive:
      return concat(rank, "takes a message of rank ", doing.peer, " to run ", of, since);
    case Activity::exchange:
      return concat(rank, "exchanges parameters or gradients beside ", of, since);
    case Activity::data:
      return concat(rank, "makes its batch of step ", step.step, ", or waits for others to have theirs",
                    since);
    case Activity::update:
      return concat(rank, "updates parameters behind step ", step.step, since);
    case Activity::item:
    case Activity::none:
      break;
  }
  return rank + (step.ended > 0        ? concat("has ended step ", step.step)
                 : step.events.empty() ? concat("has not begun step ", step.step)
                                       : "between two operators");
}

// The files of one run, by step and rank.
using Steps = std::map<int64_t, std::map<int32_t, EventStep>>;

bool is_same_run(const Profiled& a, const Profiled& b) {
  return a.ranks == b.ranks && a.chunks == b.chunks &&
         std::equal(a.modules.begin(), a.modules.end(), b.modules.begin(), b.modules.end(),
                    [](const auto& m, const auto& n) { return m.name == n.name && m.kind == n.kind; });
}

class Files {
 public:
  Files(LeftOut* left, std::vector<std::string>& notes) : left_(left), notes_(notes) {}

  void add(const std::string& path) try {
    auto step = read_events(path);
    if (!first_) first_ = step.of;
    if (!is_same_run(step.of, *first_))
      throw InvalidInput(concat("[events] '", path, "' is of another run than '", first_file_,
                                "': their ranks, chunks or modules differ"));
    if (first_file_.empty()) first_file_ = path;
    if (left_ == nullptr && !step.notes.empty()) throw InvalidInput(step.notes.front());
    notes_.insert(notes_.end(), step.notes.begin(), step.notes.end());
    if (step.step < 0) return;
    auto [at, is_new] = steps_[step.step].emplace(step.of.rank, step);
    if (is_new) return;
    if (at->second.events.size() < step.events.size()) std::swap(at->second, step);
    throw InvalidInput(concat("[events] step ", step.step, " of rank ", step.of.rank, " is in two files: '",
                              at->second.file, "' and '", step.file, "'"));
  } catch (const InvalidInput& error) {
    if (left_ == nullptr) throw;
    if (first_error_.empty()) first_error_ = error.what();
    notes_.push_back(concat(error.what(), "; it is left out"));
  }

  Steps take() {
    if (!steps_.empty()) return std::move(steps_);
    if (!first_error_.empty()) throw InvalidInput(first_error_);
    throw InvalidInput(
        concat("[events] '", first_file_, "' and what lies beside it hold no step: none was begun"));
  }

 private:
  LeftOut* left_;
  std::vector<std::string>& notes_;
  std::optional<Profiled> first_;
  std::string first_file_, first_error_;
  Steps steps_;
};

// A step that lacks ranks, or did not end on all, is one that is being written, or was when the run stopped.
bool is_whole(const std::map<int32_t, EventStep>& ranks) {
  return int32_t(ranks.size()) == ranks.begin()->second.of.ranks &&
         std::all_of(ranks.begin(), ranks.end(), [](const auto& entry) { return entry.second.ended > 0; });
}

// The end of the rank's last event, on rank 0's clock.
double last_time(const EventStep& step) {
  double last = std::max({step.began, step.ended, step.doing.since});
  for (const auto& event : step.events)
    if (event.activity != Activity::item) last = std::max(last, event.end);
  return step.clock.to_reference(last);
}

// What each rank did last, where they did not end a step together.
void note_stop(const Steps& steps, std::vector<std::string>& notes) {
  std::map<int32_t, const EventStep*> newest;
  for (const auto& [number, ranks] : steps)
    for (const auto& [rank, step] : ranks) newest[rank] = &step;
  int64_t stopped = -1;
  double last = 0, utc = 0;
  for (const auto& [rank, step] : newest) {
    if (step->ended <= 0 || step->doing.activity != Activity::none) stopped = std::max(stopped, step->step);
    double time = last_time(*step);
    last = std::max(last, time);
    if (step->utc > 0) utc = std::max(utc, step->utc + time + step->clock.offset);
  }
  if (stopped < 0) return;
  auto text = concat("step ", stopped, " has not ended; when the last event was written");
  if (utc > 0) text += concat(", at ", shown_time(utc));
  for (const auto& [rank, step] : newest) text += "\n  " + last_words(*step, last);
  notes.insert(notes.begin(), text);
}

class Converter {
 public:
  explicit Converter(RawStep& raw) : raw_(raw) {}

  void add(const EventStep& step) {
    RawRank rank{.file = step.file, .rank = step.of.rank};
    auto at = [&clock = step.clock](double time) { return clock.to_reference(time); };
    for (const auto& event : step.events) {
      if (event.activity == Activity::item) add_item(step.of, event);
      if (event.activity == Activity::compute) {
        rank.operators.push_back(operator_of(event, step));
        add_memory(event, step, rank.memory);
      }
      if (is_interval(event.activity)) {
        auto op = event.op;
        if (op.module != Module::backbone) op.index = uint32_t(share_of(step.of, event));
        rank.intervals.push_back({spent_of(event.activity),
                                  event.peer,
                                  at(event.start),
                                  at(event.end),
                                  {},
                                  event.bytes,
                                  event.activity == Activity::send,
                                  op});
      }
    }
    if (step.ended > step.began) rank.step = at(step.ended) - at(step.began);
    raw_.ranks.push_back(std::move(rank));
  }

 private:
  static bool is_interval(Activity activity) {
    return activity >= Activity::send && activity <= Activity::exchange;
  }
  static void add_memory(const Event& event, const EventStep& step, MemoryCurve& memory) {
    if (event.held_before < 0) return;  // not counted
    for (auto [time, bytes] : {std::pair(event.start, event.held_before), {event.end, event.held_after}}) {
      memory.times.push_back(step.clock.to_reference(time));
      memory.bytes.push_back(double(bytes));
    }
  }

  // Its number in the raw step; made where it is new, since its items may be missing.
  int32_t share_of(const Profiled& of, const Event& event) {
    auto [at, is_new] = shares_.emplace(event.op.index, int32_t(raw_.shares.size()));
    if (is_new) {
      const auto& module = of.modules.at(size_t(event.module));
      raw_.shares.push_back({module.name, module.kind, 0, {}});
    }
    return at->second;
  }

  void add_item(const Profiled& of, const Event& event) {
    raw_.shares[size_t(share_of(of, event))].items.push_back({event.number, event.microbatch, event.start});
  }

  RawOperator operator_of(const Event& event, const EventStep& step) {
    RawOperator op{.phase = event.op.phase,
                   .start = step.clock.to_reference(event.start),
                   .end = step.clock.to_reference(event.end)};
    if (event.op.module != Module::backbone) {
      op.share = share_of(step.of, event);
      raw_.shares[size_t(op.share)].unit = event.number;
      return op;
    }
    op.chunk = event.op.chunk;
    op.stage = event.number;
    op.microbatch = event.microbatch;
    op.position = event.op.index;
    return op;
  }

  RawStep& raw_;
  std::map<uint32_t, int32_t> shares_;  // of the schedule -> of the raw step
};

}  // namespace

std::vector<RawStep> read_event_files(const std::vector<std::string>& paths, std::vector<std::string>& notes,
                                      LeftOut* left) {
  Files files(left, notes);
  for (const auto& path : paths) files.add(path);
  auto steps = files.take();
  bool any_whole =
      std::any_of(steps.begin(), steps.end(), [](const auto& step) { return is_whole(step.second); });
  double error = 0;
  std::vector<RawStep> all;
  for (const auto& [number, ranks] : steps) {
    // Of whole ones' neighbours only the last is of interest.
    if (any_whole && !is_whole(ranks) && (left == nullptr || number != steps.rbegin()->first)) continue;
    RawStep raw{.name = std::to_string(number)};
    raw.chunks = ranks.begin()->second.of.chunks;
    raw.microbatches = ranks.begin()->second.microbatches;
    Converter converter(raw);
    for (const auto& [rank, step] : ranks) {
      converter.add(step);
      error = std::max(error, step.clock.error);
    }
    std::vector<std::string> missing;
    if (left)
      number_ranks_that_are_there(raw.ranks, ranks.begin()->second.of.ranks, false, missing);
    else
      number_ranks(raw.ranks, false, missing);
    for (const auto& note : missing) notes.push_back(concat("step ", number, ": ", note));
    all.push_back(std::move(raw));
  }
  note_stop(steps, notes);
  if (error > 0)
    notes.push_back(concat("clocks of ranks are aligned to within ", std::lround(error * 1e6), " us"));
  return all;
}

}  // namespace bigmac
