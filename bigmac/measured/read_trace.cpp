#include "bigmac/measured/read_trace.h"

#include <algorithm>
#include <charconv>
#include <set>

#include "bigmac/common/error.h"
#include "bigmac/measured/number_ranks.h"
#include "bigmac/measured/rank_of_file.h"
#include "bigmac/measured/trace_lanes.h"
#include "bigmac/measured/trace_steps.h"

namespace bigmac {
namespace {

constexpr double kMicrosecond = 1e-6;
constexpr double kNanosecond = 1e-9;

int64_t number_of(const std::string& text) {
  int64_t number = -1;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() ? number : -1;
}

// "stream 7", "thread 4711" and where: for notes.
std::string shown(const Lane& lane) {
  return concat(lane.on_gpu ? "GPU stream " : "thread ", lane.thread);
}

// The lanes of one rank whose operators count. A range on a GPU has its twin on the CPU, and one on every
// stream that it used; a forward and its backward may be on two threads.
std::vector<Lane*> choose(std::vector<Lane*> lanes, const std::string& file,
                          std::vector<std::string>& notes) {
  bool any_gpu = std::any_of(lanes.begin(), lanes.end(), [](const Lane* lane) { return lane->on_gpu; });
  bool cpu_ranges = std::any_of(lanes.begin(), lanes.end(), [](const Lane* lane) { return lane->cpu_range; });
  std::erase_if(lanes, [&](const Lane* lane) { return lane->on_gpu != any_gpu; });
  if (!any_gpu && cpu_ranges)
    notes.push_back(concat(file,
                           ": ranges of the CPU only; of a step that ran on a GPU they are the times in "
                           "which kernels were launched, not run (record ProfilerActivity.CUDA as well)"));
  std::stable_sort(lanes.begin(), lanes.end(), [](const Lane* a, const Lane* b) {
    return std::tuple(-int64_t(a->operators.size()), number_of(a->thread)) <
           std::tuple(-int64_t(b->operators.size()), number_of(b->thread));
  });
  std::vector<Lane*> chosen;
  std::set<Phase> taken;
  for (Lane* lane : lanes) {
    std::set<Phase> phases;
    for (const auto& op : lane->operators) phases.insert(op.phase);
    bool is_new = std::none_of(phases.begin(), phases.end(), [&](Phase p) { return taken.count(p) > 0; });
    if (is_new) {
      taken.insert(phases.begin(), phases.end());
      chosen.push_back(lane);
    } else {
      notes.push_back(concat(file, ": operators are taken from ", shown(*chosen[0]), "; those of ",
                             shown(*lane), " are left out"));
    }
  }
  return chosen;
}

// What says which microbatch it is wins over what does not: a function within a range.
void keep_numbered(std::vector<RawOperator>& operators) {
  auto numbered = [](const RawOperator& op) { return op.share >= 0 || op.microbatch >= 0; };
  if (std::any_of(operators.begin(), operators.end(), numbered))
    std::erase_if(operators, [&](const RawOperator& op) { return !numbered(op); });
}

// One curve of several, in order of time.
void add_memory(const TraceProcess& process, RawRank& rank) {
  const auto& curve = process.memory.bytes.empty() ? process.cpu_memory : process.memory;
  rank.memory.times.insert(rank.memory.times.end(), curve.times.begin(), curve.times.end());
  rank.memory.bytes.insert(rank.memory.bytes.end(), curve.bytes.begin(), curve.bytes.end());
}

class Ranks {
 public:
  Ranks(std::vector<std::string>& notes, LeftOut* left) : notes_(notes), left_(left) {}

  // `first_share` is the number of the file's first share among all files' shares.
  void add(TraceFile& file, bool alone, int32_t first_share) {
    if (first_base_ == 0) first_base_ = file.base_nanoseconds;
    double base = double(file.base_nanoseconds - first_base_) * kNanosecond;
    bool by_process = file.own || (alone && !file.rank && processes_of(file).size() > 1);
    if (!by_process) {
      std::vector<Lane*> lanes;
      for (auto& lane : file.lanes) lanes.push_back(&lane);
      auto& rank = add_rank(file, lanes, alone ? file.rank.value_or(0) : rank_of(file));
      for (const auto& [name, process] : file.processes) add_memory(process, rank);
      set_times(rank, base, first_share);
      return;
    }
    for (const auto& name : processes_of(file)) {
      int64_t number = number_of(name);
      if (number < 0 || number > INT32_MAX) {
        auto text = concat("[trace] ", file.path, ": pid '", name, "' must be a rank");
        if (left_ == nullptr) throw InvalidInput(text);
        left_->add("processes that are no rank are left out", text);
        continue;
      }
      std::vector<Lane*> lanes;
      for (auto& lane : file.lanes)
        if (lane.process == name) lanes.push_back(&lane);
      auto& rank = add_rank(file, lanes, number);
      auto& process = file.processes[name];
      if (file.own) rank.intervals = std::move(process.intervals);
      add_memory(process, rank);
      set_times(rank, base, first_share);
    }
  }

  // `least`: how many there are, -1 where that is not known.
  std::vector<RawRank> take(int64_t least, bool own) {
    if (ranks_.empty()) throw InvalidInput("[trace] holds no operator of a rank");
    if (left_ == nullptr)
      number_ranks(ranks_, !own, notes_);
    else
      number_ranks_that_are_there(ranks_, least, !own, notes_);
    return std::move(ranks_);
  }

 private:
  static std::set<std::string> processes_of(const TraceFile& file) {
    bool any_gpu = std::any_of(file.lanes.begin(), file.lanes.end(), [](const auto& l) { return l.on_gpu; });
    std::set<std::string> processes;
    for (const auto& lane : file.lanes)
      if (lane.on_gpu == any_gpu) processes.insert(lane.process);
    return processes;
  }

  static int64_t rank_of(const TraceFile& file) {
    if (file.rank) return *file.rank;
    if (auto rank = rank_of_file(file.path)) return *rank;
    throw InvalidInput(
        concat("[trace] ", file.path,
               ": says no rank: neither as distributedInfo.rank nor in its name; right would be "
               "a name such as rank3.json"));
  }

  RawRank& add_rank(const TraceFile& file, const std::vector<Lane*>& lanes, int64_t number) {
    auto& rank = ranks_.emplace_back(RawRank{.file = file.path, .rank = number});
    for (Lane* lane : choose(lanes, file.path, notes_)) {
      if (rank.operators.empty())
        rank.operators = std::move(lane->operators);
      else
        rank.operators.insert(rank.operators.end(), lane->operators.begin(), lane->operators.end());
    }
    if (!file.own) keep_numbered(rank.operators);
    return rank;
  }

  void set_times(RawRank& rank, double base, int32_t first_share) {
    if (!origin_) origin_ = rank.operators.front().start;
    auto seconds = [&](double time) { return (time - *origin_) * kMicrosecond + base; };
    auto set = [&](auto& span) {
      span.start = seconds(span.start);
      span.end = seconds(span.end);
    };
    std::for_each(rank.operators.begin(), rank.operators.end(), set);
    std::for_each(rank.intervals.begin(), rank.intervals.end(), set);
    for (double& time : rank.memory.times) time = seconds(time);
    for (auto& op : rank.operators)
      if (op.share >= 0) op.share += first_share;
    sort_by_start(rank.operators);
    sort_by_start(rank.intervals);
  }

  std::vector<std::string>& notes_;
  LeftOut* left_;
  std::vector<RawRank> ranks_;
  std::optional<double> origin_;
  int64_t first_base_ = 0;
};

// Of our own traces: from the first event of all ranks to the last, waits and transfers included.
void set_length(const std::vector<TraceFile>& files, std::vector<RawRank>& ranks) {
  std::optional<double> first, last;
  for (const auto& file : files)
    for (const auto& [name, process] : file.processes) {
      if (!process.span) continue;
      first = std::min(first.value_or(process.span->first), process.span->first);
      last = std::max(last.value_or(process.span->second), process.span->second);
    }
  for (auto& rank : ranks) rank.step = (*last - *first) * kMicrosecond;
}

// How many ranks our own traces speak of.
int64_t ranks_known(const std::vector<TraceFile>& files) {
  int64_t most = -1;
  for (const auto& file : files) {
    most = std::max(most, file.ranks_written);
    for (const auto& [name, process] : file.processes)
      for (const auto& interval : process.intervals) most = std::max(most, interval.peer + 1);
  }
  return most;
}

void note_cut(const TraceFile& file, std::vector<std::string>& notes) {
  if (!file.cut) return;
  auto text = concat(file.cut->why, "; it was read that far: ", file.cut->bytes, " bytes, ", file.events,
                     " events, ", file.operators, " operators");
  if (file.operators_written > file.operators)
    text +=
        concat(" of ", file.operators_written, "; ", file.operators_written - file.operators, " are missing");
  else if (file.operators_written < 0)
    text += "; what stood behind it is missing";
  notes.push_back(text);
}

void note_merged(const TraceFile& file, const LeftOut* left, std::vector<std::string>& notes) {
  if (file.operators_merged == 0) return;
  auto text =
      concat("[trace] ", file.path, ": ", file.operators_merged,
             " operators in the middle of the step were put together when it was written (bigmac draw "
             "--trace --most 0 writes all)");
  if (left == nullptr) throw InvalidInput(text);
  notes.push_back(text);
}

}  // namespace

std::vector<RawStep> read_traces(const std::vector<std::string>& paths, const ReadOptions& options,
                                 std::vector<std::string>& notes, LeftOut* left,
                                 const json::Progress& progress) {
  std::vector<TraceFile> files;
  std::vector<RawShare> shares;
  Ranks collected(notes, left);
  std::string first_error;
  for (const auto& path : paths) {
    try {
      auto file = read_lanes(path, left, progress);
      if (!files.empty() && file.own != files.front().own)
        throw InvalidInput(concat("[trace] ", path, " and ", files.front().path,
                                  ": one is bigmac's trace, the other is not"));
      note_merged(file, left, notes);
      note_cut(file, notes);
      collected.add(file, paths.size() == 1, int32_t(shares.size()));
      shares.insert(shares.end(), file.shares.begin(), file.shares.end());
      file.lanes.clear();
      files.push_back(std::move(file));
    } catch (const InvalidInput& error) {
      if (left == nullptr || paths.size() == 1) throw;
      if (first_error.empty()) first_error = error.what();
      notes.push_back(concat("'", path, "' is left out: ", error.what()));
    }
  }
  if (files.empty()) throw InvalidInput(first_error);
  bool own = files.front().own;
  auto ranks = collected.take(own ? ranks_known(files) : -1, own);
  if (own && left == nullptr) set_length(files, ranks);
  double limit = 0;
  for (const auto& file : files)
    for (const auto& [name, process] : file.processes) limit = std::max(limit, process.memory_limit);
  std::vector<RawStep> steps(1);
  if (own)  // holds one step
    steps[0].ranks = std::move(ranks);
  else
    steps = divide_into_steps(std::move(ranks), options, left);
  for (auto& step : steps) {
    step.shares = shares;
    step.memory_limit = limit;
  }
  return steps;
}

}  // namespace bigmac
