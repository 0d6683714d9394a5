#include <algorithm>
#include <cmath>
#include <map>

#include "bigmac/common/error.h"
#include "bigmac/measured/clocks.h"
#include "bigmac/measured/mend.h"
#include "bigmac/measured/operator_name.h"
#include "bigmac/measured/raw_step.h"
#include "bigmac/measured/raw_unknown.h"
#include "bigmac/measured/schedule_of.h"
#include "bigmac/measured/what_is_missing.h"
#include "bigmac/schedule/check.h"
#include "bigmac/schedule/labels.h"

namespace bigmac {
namespace {

[[noreturn]] void fail(const RawStep& raw, const RawRank& rank, const std::string& text) {
  throw InvalidInput(concat("[measured] ", rank.file, ": ", raw.name.empty() ? "" : "iteration ", raw.name,
                            raw.name.empty() ? "" : ", ", "rank ", rank.rank, ": ", text));
}

// Puts each rank's operators into the order of time, and those that overlap by a rounding behind one another.
void check_times(RawStep& raw) {
  for (auto& rank : raw.ranks) {
    if (rank.operators.empty()) fail(raw, rank, "has no operators");
    for (const auto& op : rank.operators) {
      if (!std::isfinite(op.start) || !std::isfinite(op.end))
        fail(raw, rank, concat(shown(op), " has a time that is not a finite number"));
      if (op.end < op.start)
        fail(raw, rank,
             concat(shown(op), " ends ", op.start - op.end, " s before it starts, at ", op.start, " s"));
    }
    sort_by_start(rank.operators);
    for (size_t n = 1; n < rank.operators.size(); ++n) {
      const auto& before = rank.operators[n - 1];
      auto& op = rank.operators[n];
      if (op.start >= before.end) continue;
      if (before.end - op.start > kRounding)
        fail(raw, rank,
             concat(shown(before), " until ", before.end, " s and ", shown(op), " from ", op.start,
                    " s overlap; a rank runs one operator at a time"));
      op.start = before.end;
      op.end = std::max(op.end, op.start);
    }
  }
}

// Ranks must have the same microbatches, none beyond what they ran; which one is missing, check() says.
void check_counts_alike(const RawStep& raw) {
  for (const auto& rank : raw.ranks)
    for (const auto& op : rank.operators) {
      auto count = int64_t(rank.operators.size());
      if (op.share < 0 && (op.microbatch >= count || op.position >= count || op.chunk >= count))
        fail(raw, rank, concat(shown(op), " does not fit a rank with ", count, " operators"));
    }
  auto count = [](const RawRank& rank, Phase phase) {
    std::map<int64_t, int64_t> by_chunk;
    for (const auto& op : rank.operators)
      if (op.share < 0 && op.phase == phase) ++by_chunk[op.chunk];
    return by_chunk;
  };
  const RawRank* other = nullptr;
  int64_t of_other = 0;
  for (const auto& rank : raw.ranks)
    for (auto [chunk, forwards] : count(rank, Phase::forward)) {
      if (other == nullptr) {
        other = &rank;
        of_other = forwards;
      }
      if (forwards != of_other)
        fail(raw, rank,
             concat("has ", forwards, " forwards of chunk ", chunk, "; rank ", other->rank, " (", other->file,
                    ") has ", of_other));
    }
}

// Puts the second chunks where they are in a V. False where they say their stage, or are not two.
bool fold(RawStep& raw) {
  auto ranks = int64_t(raw.ranks.size());
  int64_t most = 0;
  for (const auto& rank : raw.ranks)
    for (const auto& op : rank.operators) {
      if (op.share < 0 && op.stage >= 0) return false;
      most = std::max(most, op.chunk);
    }
  if (most != 1 || ranks < 2) return false;
  for (auto& rank : raw.ranks)
    for (auto& op : rank.operators)
      if (op.share < 0) op.stage = op.chunk == 0 ? rank.rank : 2 * ranks - 1 - rank.rank;
  return true;
}

Schedule complete_schedule(RawStep& raw) {
  auto schedule = schedule_of(raw, stage_ranks_of(raw));
  auto problems = check(schedule);
  if (problems.empty()) return schedule;
  if (!raw.order_assumed && problems.back().starts_with("deadlock") && fold(raw)) {
    auto folded = schedule_of(raw, stage_ranks_of(raw));
    if (check(folded).empty()) return folded;
    for (auto& rank : raw.ranks)
      for (auto& op : rank.operators)
        if (op.share < 0) op.stage = -1;
  }
  auto text = concat("[measured] ", raw.ranks[0].file, raw.name.empty() ? "" : ": iteration ", raw.name, ": ",
                     problems[0]);
  if (problems.size() > 1) text += concat("\n(and ", problems.size() - 1, " more like it)");
  if (raw.order_assumed)
    text +=
        "\nThe operators do not say their chunks: they were taken to run in the order of interleaved 1F1B; "
        "is that what ran, with this V and G?";
  throw InvalidInput(text);
}

// The operators that labels of intervals mean.
class Labelled {
 public:
  explicit Labelled(const Schedule& schedule) {
    Labels labels(schedule);
    for (uint32_t n = 0; n < schedule.shares.list.size(); ++n) {
      const auto& share = schedule.shares.list[n];
      const auto& module = schedule.module_of(share);
      for (auto op : {encoder_forward(n), encoder_backward(n), generate(n)})
        if (op.module == module.kind) of_shares_[{share.rank, labels(op)}] = op;
    }
  }

  Operator operator()(int rank, const std::string& label) const {
    if (auto at = of_shares_.find({rank, label}); at != of_shares_.end()) return at->second;
    auto name = parse_operator_name(label);
    if (!name || name->chunk < 0 || name->microbatch < 0 || name->chunk > UINT16_MAX) return {};
    return backbone(name->phase, name->chunk, name->microbatch);
  }

 private:
  std::map<std::pair<int, std::string>, Operator> of_shares_;
};

// By number of a raw step's share, that of the table's.
std::vector<uint32_t> numbers_of_shares(const RawStep& raw, const Schedule& schedule) {
  std::vector<uint32_t> numbers(raw.shares.size(), UINT32_MAX);
  for (size_t r = 0; r < raw.ranks.size(); ++r) {
    auto row = schedule.row(int(r));
    for (size_t n = 0; n < row.size(); ++n)
      if (auto share = raw.ranks[r].operators[n].share; share >= 0) numbers[size_t(share)] = row[n].index;
  }
  return numbers;
}

MeasuredStep measured_step(RawStep& raw, Schedule schedule) {
  MeasuredStep step{.name = raw.name,
                    .schedule = std::move(schedule),
                    .timeline = {},
                    .rank_steps = {},
                    .memory_limit = raw.memory_limit};
  bool any_memory = false;
  auto numbers = numbers_of_shares(raw, step.schedule);
  std::optional<Labelled> labelled;
  for (size_t r = 0; r < raw.ranks.size(); ++r) {
    auto& rank = raw.ranks[r];
    auto& row = step.timeline.rows.emplace_back();
    auto ops = step.schedule.row(int(r));
    row.operators.reserve(ops.size());
    for (size_t n = 0; n < ops.size(); ++n)
      row.operators.push_back({ops[n], rank.operators[n].start, rank.operators[n].end});
    if (!rank.intervals.empty() && !labelled) labelled.emplace(step.schedule);
    row.intervals.reserve(rank.intervals.size());
    for (const auto& interval : rank.intervals) {
      auto op = interval.op ? *interval.op : (*labelled)(int(r), interval.label);
      if (interval.op && op.module != Module::backbone) {
        op.index = op.index < numbers.size() ? numbers[op.index] : UINT32_MAX;
        if (op.index == UINT32_MAX) op = {};  // its share was left out
      }
      row.intervals.push_back({interval.spent, int(interval.peer), op, interval.start, interval.end,
                               interval.bytes, interval.sends});
    }
    bool empty = rank.operators.empty();
    double length = empty ? 0 : rank.operators.back().end - rank.operators.front().start;
    step.rank_steps.push_back(rank.step >= 0 ? rank.step : length);
    any_memory |= !rank.memory.bytes.empty();
    step.memory.push_back(std::move(rank.memory));
  }
  if (!any_memory) step.memory.clear();
  set_ends(step.timeline);
  return step;
}

// What it throws leaves the operators as they were, numbers that were not said filled in.
MeasuredStep whole_step(RawStep& raw) {
  check_times(raw);
  fill_in_unknown(raw);
  check_counts_alike(raw);
  auto schedule = complete_schedule(raw);
  return measured_step(raw, std::move(schedule));
}

}  // namespace

std::string shown(const RawOperator& op) {
  if (op.share >= 0) return concat("an encoder's or generator's ", letter(op.phase));
  auto text = std::string(letter(op.phase));
  if (op.stage >= 0) text += concat(" stage ", op.stage);
  if (op.stage < 0 && op.chunk >= 0) text += concat(" chunk ", op.chunk);
  if (op.microbatch >= 0) text += concat(" microbatch ", op.microbatch);
  return text;
}

MeasuredStep assemble(RawStep raw) {
  return whole_step(raw);
}

MeasuredStep assemble_what_is_there(RawStep raw, LeftOut& left) {
  auto is_empty = [](const RawRank& rank) { return rank.operators.empty(); };
  mend_times(raw, left);
  if (std::none_of(raw.ranks.begin(), raw.ranks.end(), is_empty)) {
    try {
      return whole_step(raw);
    } catch (const InvalidInput&) {
      // What it says is told as what is missing, or left out.
    }
  }
  auto stage_ranks = mend_shape(raw, left);
  if (std::all_of(raw.ranks.begin(), raw.ranks.end(), is_empty))
    throw InvalidInput(concat("[measured] ", raw.ranks[0].file, ": no operator is left: ",
                              left.notes().empty() ? "there is none" : left.notes().front()));
  auto step = measured_step(raw, schedule_of(raw, std::move(stage_ranks)));
  step.missing = what_is_missing(step.schedule);
  return step;
}

}  // namespace bigmac
