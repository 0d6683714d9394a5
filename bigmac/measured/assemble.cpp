#include <algorithm>
#include <cmath>
#include <map>

#include "bigmac/common/error.h"
#include "bigmac/formats/table_header.h"
#include "bigmac/measured/raw_step.h"
#include "bigmac/measured/raw_unknown.h"
#include "bigmac/schedule/check.h"

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
    std::stable_sort(rank.operators.begin(), rank.operators.end(),
                     [](const auto& a, const auto& b) { return a.start < b.start; });
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

// Where each stage is; empty for a loop over the ranks. Of our own traces ranks may have no stage at all;
// then an operator that says none is of the loop's.
std::vector<int32_t> stage_ranks_of(const RawStep& raw, int64_t chunks) {
  auto ranks = int64_t(raw.ranks.size());
  std::map<int64_t, int32_t> rank_of;
  for (const auto& rank : raw.ranks)
    for (const auto& op : rank.operators) {
      if (op.share >= 0 || (op.stage < 0 && raw.shares.empty())) continue;
      int64_t stage = op.stage >= 0 ? op.stage : op.chunk * ranks + rank.rank;
      auto [at, is_new] = rank_of.emplace(stage, int32_t(rank.rank));
      if (!is_new && at->second != rank.rank)
        fail(raw, rank, concat(shown(op), " is of stage ", stage, ", which is on rank ", at->second));
    }
  std::vector<int32_t> list;
  bool loops = int64_t(rank_of.size()) == ranks * chunks;
  for (const auto& [stage, rank] : rank_of) {
    if (stage != int64_t(list.size()))
      throw InvalidInput(concat("[measured] ", raw.ranks[0].file, ": stage ", list.size(),
                                " is on no rank; the stages go up to ", rank_of.rbegin()->first));
    loops &= stage % ranks == rank;
    list.push_back(rank);
  }
  return loops ? std::vector<int32_t>{} : list;
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

class Assembly {
 public:
  explicit Assembly(RawStep& raw) : raw_(raw) {}

  Schedule schedule() {
    set_step();
    add_shares();
    for (const auto& rank : raw_.ranks) {
      for (const auto& op : rank.operators)
        schedule_.operators.push_back(op.share >= 0 ? share_operator(op) : backbone_operator(op));
      schedule_.row_begin.push_back(int64_t(schedule_.operators.size()));
    }
    return std::move(schedule_);
  }

 private:
  static Operator backbone_operator(const RawOperator& op) {
    return backbone(op.phase, op.chunk, op.position);
  }
  Operator share_operator(const RawOperator& op) const {
    return {number_of_share_[size_t(op.share)], 0, raw_.shares[size_t(op.share)].kind, op.phase};
  }

  void set_step() {
    Step& step = schedule_.step;
    int64_t operators = 0, most = 0;
    for (const auto& rank : raw_.ranks) {
      operators += int64_t(rank.operators.size());
      for (const auto& op : rank.operators) {
        if (op.share >= 0) continue;
        step.chunks = std::max(step.chunks, op.chunk + 1);
        most = std::max({most, op.position, op.microbatch});
      }
    }
    step.base = Base::custom;
    step.ranks = int64_t(raw_.ranks.size());
    step.microbatches = most + 1;
    step.stage_ranks = stage_ranks_of(raw_, step.chunks);
    try {
      check_step_fits(step, operators);
    } catch (const InvalidInput& error) {
      throw InvalidInput(concat("[measured] ", raw_.ranks[0].file, ": ", error.what()));
    }
    schedule_.row_begin = {0};
    set_order();
  }

  void set_order() {
    Step& step = schedule_.step;
    std::vector<uint32_t> order(size_t(step.microbatches), 0);
    position_of_.assign(size_t(step.microbatches), 0);
    for (const auto& rank : raw_.ranks)
      for (const auto& op : rank.operators)
        if (op.share < 0) {
          order[size_t(op.position)] = uint32_t(op.microbatch);
          position_of_[size_t(op.microbatch)] = uint32_t(op.position);
        }
    if (!std::is_sorted(order.begin(), order.end())) step.order = std::move(order);
  }

  void add_shares() {
    std::vector<std::string> names;
    std::vector<int32_t> module_of;
    Step& step = schedule_.step;
    for (const auto& share : raw_.shares) {
      auto at = std::find(names.begin(), names.end(), share.module);
      module_of.push_back(int32_t(at - names.begin()));
      if (at != names.end()) continue;
      names.push_back(share.module);
      step.modules.push_back({share.module, share.kind, {}});
    }
    if (names.empty()) return;
    step.arrangement = Arrangement::nested;
    for (size_t n = 0; n < names.size(); ++n) add_items(int32_t(n), module_of);
    set_generator_unit();
    for (size_t n = 0; n < names.size(); ++n) {
      auto& module = step.modules[n];
      module.trained = module.kind == Module::generator || has_backward(int32_t(n), module_of);
    }
    add_share_list(module_of);
  }

  // A frozen encoder has none.
  bool has_backward(int32_t module, const std::vector<int32_t>& module_of) const {
    for (const auto& rank : raw_.ranks)
      for (const auto& op : rank.operators)
        if (op.share >= 0 && module_of[size_t(op.share)] == module && op.phase != Phase::forward) return true;
    return false;
  }

  void add_items(int32_t module, const std::vector<int32_t>& module_of) {
    auto& items = schedule_.step.modules[size_t(module)].items;
    size_t count = 0;
    for (size_t s = 0; s < raw_.shares.size(); ++s)
      if (module_of[s] == module) count += raw_.shares[s].items.size();
    items.assign(count, {0, -1});
    for (size_t s = 0; s < raw_.shares.size(); ++s) {
      if (module_of[s] != module) continue;
      for (const auto& item : raw_.shares[s].items) {
        const auto& name = schedule_.step.modules[size_t(module)].name;
        if (item.item < 0 || item.item >= int64_t(count) || items[size_t(item.item)].size >= 0)
          throw InvalidInput(concat("[measured] ", raw_.ranks[0].file, ": item ", item.item, " of '", name,
                                    "' is there twice or not among the ", count, " that there are"));
        if (item.microbatch < 0 || item.microbatch >= schedule_.step.microbatches)
          throw InvalidInput(concat("[measured] ", raw_.ranks[0].file, ": item ", item.item, " of '", name,
                                    "' is of microbatch ", item.microbatch, "; there are ",
                                    schedule_.step.microbatches));
        items[size_t(item.item)] = {position_of_[size_t(item.microbatch)], item.size};
      }
    }
  }

  // The size of the generators' units with which every share is of the unit that it says.
  void set_generator_unit() {
    Step& step = schedule_.step;
    auto fits = [&](int64_t size) {
      for (const auto& share : raw_.shares)
        for (const auto& item : share.items)
          if (share.kind == Module::generator && position_of_[size_t(item.microbatch)] / size != share.unit)
            return false;
      return true;
    };
    for (int64_t size = step.ranks; size > 0; --size)
      if (fits(size)) {
        step.generator_unit = size == step.ranks ? 0 : size;
        return;
      }
  }

  void add_share_list(const std::vector<int32_t>& module_of) {
    std::vector<int32_t> rank_of(raw_.shares.size(), -1);
    for (const auto& rank : raw_.ranks)
      for (const auto& op : rank.operators)
        if (op.share >= 0) rank_of[size_t(op.share)] = int32_t(rank.rank);
    std::vector<uint32_t> order(raw_.shares.size());
    for (size_t n = 0; n < order.size(); ++n) order[n] = uint32_t(n);
    std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
      return std::tuple(module_of[a], raw_.shares[a].unit, rank_of[a]) <
             std::tuple(module_of[b], raw_.shares[b].unit, rank_of[b]);
    });
    number_of_share_.assign(order.size(), 0);
    auto& shares = schedule_.shares;
    for (uint32_t s : order) {
      number_of_share_[s] = uint32_t(shares.list.size());
      auto first = uint32_t(shares.items.size());
      for (const auto& item : raw_.shares[s].items) shares.items.push_back(uint32_t(item.item));
      shares.list.push_back({module_of[s], int32_t(raw_.shares[s].unit), rank_of[s], first,
                             uint32_t(raw_.shares[s].items.size())});
    }
  }

  RawStep& raw_;
  Schedule schedule_;
  std::vector<uint32_t> position_of_;  // by microbatch as the caller counts
  std::vector<uint32_t> number_of_share_;
};

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
  auto schedule = Assembly(raw).schedule();
  auto problems = check(schedule);
  if (problems.empty()) return schedule;
  if (!raw.order_assumed && problems.back().starts_with("deadlock") && fold(raw)) {
    auto folded = Assembly(raw).schedule();
    if (check(folded).empty()) return folded;
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
  check_times(raw);
  fill_in_unknown(raw);
  check_counts_alike(raw);
  MeasuredStep step{.name = raw.name, .schedule = complete_schedule(raw), .timeline = {}, .rank_steps = {}};
  auto& timeline = step.timeline;
  timeline.start = raw.ranks[0].operators.front().start;
  timeline.end = raw.ranks[0].operators.back().end;
  for (size_t r = 0; r < raw.ranks.size(); ++r) {
    const auto& rank = raw.ranks[r];
    auto& row = timeline.rows.emplace_back();
    auto ops = step.schedule.row(int(r));
    for (size_t n = 0; n < ops.size(); ++n)
      row.operators.push_back({ops[n], rank.operators[n].start, rank.operators[n].end});
    double first = rank.operators.front().start, last = rank.operators.back().end;
    timeline.start = std::min(timeline.start, first);
    timeline.end = std::max(timeline.end, last);
    step.rank_steps.push_back(rank.step >= 0 ? rank.step : last - first);
    if (rank.memory >= 0) step.memory.push_back(rank.memory);
  }
  if (step.memory.size() != raw.ranks.size()) step.memory.clear();
  return step;
}

}  // namespace bigmac
