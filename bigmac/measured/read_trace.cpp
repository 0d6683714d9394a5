#include "bigmac/measured/read_trace.h"

#include <algorithm>
#include <charconv>
#include <set>

#include "bigmac/common/error.h"
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
std::vector<const Lane*> choose(std::vector<const Lane*> lanes, const std::string& file,
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
  std::vector<const Lane*> chosen;
  std::set<Phase> taken;
  for (const Lane* lane : lanes) {
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

class Ranks {
 public:
  explicit Ranks(std::vector<std::string>& notes) : notes_(notes) {}

  // `first_share` is the number of the file's first share among all files' shares.
  void add(const TraceFile& file, bool alone, int32_t first_share) {
    if (first_base_ == 0) first_base_ = file.base_nanoseconds;
    double base = double(file.base_nanoseconds - first_base_) * kNanosecond;
    bool by_process = file.own || (alone && !file.rank && processes_of(file).size() > 1);
    if (!by_process) {
      std::vector<const Lane*> lanes;
      for (const auto& lane : file.lanes) lanes.push_back(&lane);
      add_rank(file, lanes, alone ? file.rank.value_or(0) : rank_of(file), base, first_share);
      return;
    }
    for (const auto& process : processes_of(file)) {
      int64_t rank = number_of(process);
      if (rank < 0 || rank > INT32_MAX)
        throw InvalidInput(concat("[trace] ", file.path, ": pid '", process, "' must be a rank"));
      std::vector<const Lane*> lanes;
      for (const auto& lane : file.lanes)
        if (lane.process == process) lanes.push_back(&lane);
      add_rank(file, lanes, rank, base, first_share);
    }
  }

  std::vector<RawRank> take() {
    std::sort(ranks_.begin(), ranks_.end(), [](const auto& a, const auto& b) { return a.rank < b.rank; });
    for (size_t n = 1; n < ranks_.size(); ++n)
      if (ranks_[n].rank == ranks_[n - 1].rank)
        throw InvalidInput(concat("[trace] rank ", ranks_[n].rank, " is in two files: '", ranks_[n - 1].file,
                                  "' and '", ranks_[n].file, "'"));
    number_from_zero();
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

  void add_rank(const TraceFile& file, const std::vector<const Lane*>& lanes, int64_t number, double base,
                int32_t first_share) {
    RawRank rank{.file = file.path, .rank = number};
    for (const Lane* lane : choose(lanes, file.path, notes_))
      rank.operators.insert(rank.operators.end(), lane->operators.begin(), lane->operators.end());
    if (!file.own) keep_numbered(rank.operators);
    if (!origin_) origin_ = rank.operators.front().start;
    auto seconds = [&](double time) { return (time - *origin_) * kMicrosecond + base; };
    for (auto& op : rank.operators) {
      op.start = seconds(op.start);
      op.end = seconds(op.end);
      if (op.share >= 0) op.share += first_share;
    }
    std::stable_sort(rank.operators.begin(), rank.operators.end(),
                     [](const auto& a, const auto& b) { return a.start < b.start; });
    ranks_.push_back(std::move(rank));
  }

  // Of a run with other kinds of parallelism, the ranks of one pipeline are so many apart.
  void number_from_zero() {
    auto stride = ranks_.size() > 1 ? ranks_[1].rank - ranks_[0].rank : 1;
    for (size_t n = 0; n < ranks_.size(); ++n) {
      int64_t expected = ranks_[0].rank + int64_t(n) * stride;
      if (ranks_[n].rank != expected || (stride == 1 && ranks_[0].rank != 0))
        throw InvalidInput(concat("[trace] rank ", stride == 1 && ranks_[0].rank != 0 ? 0 : expected,
                                  " is missing; there are ", ranks_.size(), " from ", ranks_[0].rank, " to ",
                                  ranks_.back().rank));
    }
    if (stride != 1)
      notes_.push_back(concat("ranks ", ranks_[0].rank, ", ", ranks_[1].rank, ", ... ", ranks_.back().rank,
                              " of the run are taken as ranks 0 to ", ranks_.size() - 1, " of its pipeline"));
    for (size_t n = 0; n < ranks_.size(); ++n) ranks_[n].rank = int64_t(n);
  }

  std::vector<std::string>& notes_;
  std::vector<RawRank> ranks_;
  std::optional<double> origin_;
  int64_t first_base_ = 0;
};

// Of our own traces: from the first event of all ranks to the last, waits and transfers included.
void set_length(const std::vector<TraceFile>& files, std::vector<RawRank>& ranks) {
  std::optional<double> first, last;
  for (const auto& file : files)
    for (const auto& [process, span] : file.spans) {
      first = std::min(first.value_or(span.first), span.first);
      last = std::max(last.value_or(span.second), span.second);
    }
  for (auto& rank : ranks) rank.step = (*last - *first) * kMicrosecond;
}

}  // namespace

std::vector<RawStep> read_traces(const std::vector<std::string>& paths, const ReadOptions& options,
                                 std::vector<std::string>& notes) {
  std::vector<TraceFile> files;
  std::vector<RawShare> shares;
  Ranks collected(notes);
  for (const auto& path : paths) {
    files.push_back(read_lanes(path));
    auto& file = files.back();
    if (file.own != files.front().own)
      throw InvalidInput(
          concat("[trace] ", path, " and ", paths[0], ": one is bigmac's trace, the other is not"));
    collected.add(file, paths.size() == 1, int32_t(shares.size()));
    shares.insert(shares.end(), file.shares.begin(), file.shares.end());
    file.lanes.clear();
  }
  auto ranks = collected.take();
  bool own = files.front().own;
  if (own) set_length(files, ranks);
  auto steps = divide_into_steps(ranks, own ? ReadOptions{} : options);
  if (own && steps.size() > 1)
    throw InvalidInput(
        concat("[trace] ", paths[0], ": an operator is there twice; a trace of bigmac holds one step"));
  for (auto& step : steps) step.shares = shares;
  return steps;
}

}  // namespace bigmac
