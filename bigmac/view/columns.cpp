#include "bigmac/view/columns.h"

#include <span>

#include "bigmac/analysis/sentences.h"
#include "bigmac/common/error.h"
#include "bigmac/schedule/dependencies.h"
#include "bigmac/schedule/labels.h"
#include "bigmac/timeline/explain.h"
#include "bigmac/view/column_file.h"
#include "bigmac/view/facts.h"
#include "bigmac/view/thin.h"
#include "bigmac/view/ticks.h"

namespace bigmac {
namespace {

constexpr size_t kMostWaits = 200'000;
constexpr size_t kMostMemoryPoints = 1'000'000;

// Numbers of operators in the page's order, by id and by what explain.h gives.
class Numbers {
 public:
  Numbers(const Schedule& schedule, const Timeline& timeline)
      : dependencies_(schedule), of_id_(size_t(dependencies_.count()), kNone) {
    uint32_t number = 0;
    for (int rank = 0; rank < int(timeline.rows.size()); ++rank)
      for (const auto& slice : timeline.rows[rank].operators)
        of_id_[dependencies_.of(rank, slice.op)] = number++;
  }
  static constexpr uint32_t kNone = ~uint32_t{0};

  const Dependencies& dependencies() const { return dependencies_; }
  uint32_t of_id(int64_t id) const { return of_id_[id]; }
  uint32_t of(int rank, const Operator& op) const { return of_id_[dependencies_.of(rank, op)]; }
  uint32_t behind(int rank, const Operator& op) const { return of(rank, op) + 1; }
  // Of an operator of the model, -1 for none.
  uint32_t behind(const StepModel& model, int32_t i) const {
    return i < 0 ? 0 : behind(model.rank[size_t(i)], model.slices[size_t(i)].op);
  }

 private:
  Dependencies dependencies_;
  std::vector<uint32_t> of_id_;
};

void add_operators(ColumnFile& file, const Timeline& timeline, const Ticks& ticks) {
  std::vector<uint32_t> starts, durations, chunks, indices;
  std::vector<uint8_t> codes;
  for (const auto& row : timeline.rows) {
    uint32_t before = 0;
    for (const auto& [op, start, end] : row.operators) {
      uint32_t at = std::max(ticks.of(start), before);
      starts.push_back(at - before);
      durations.push_back(std::max(ticks.of(end), at) - at);
      before = at;
      codes.push_back(uint8_t(uint8_t(op.module) << 4 | uint8_t(op.phase)));
      chunks.push_back(op.chunk);
      indices.push_back(op.index);
    }
  }
  file.add("start", starts);
  file.add("duration", durations);
  file.add("code", codes);
  file.add("chunk", chunks);
  file.add("index", indices);
}

void add_needs(ColumnFile& file, const Timeline& timeline, const Numbers& numbers) {
  std::vector<uint32_t> counts;
  std::vector<int32_t> needs;
  int64_t own = 0;
  for (int rank = 0; rank < int(timeline.rows.size()); ++rank)
    for (const auto& slice : timeline.rows[rank].operators) {
      size_t before = needs.size();
      numbers.dependencies().for_each_predecessor(rank, slice.op, [&](int64_t id, int) {
        if (numbers.of_id(id) != Numbers::kNone) needs.push_back(int32_t(own - int64_t(numbers.of_id(id))));
      });
      counts.push_back(uint32_t(needs.size() - before));
      ++own;
    }
  file.add("needs_begin", counts);
  file.add("needs", needs);
}

void add_shares(ColumnFile& file, const Schedule& schedule) {
  std::vector<uint32_t> modules, units, counts, microbatches, numbers;
  std::vector<float> sizes;
  std::vector<std::vector<uint32_t>> within;  // by module and item
  for (const auto& module : schedule.step.modules) {
    auto& of_module = within.emplace_back(module.items.size(), 0);
    for (size_t i = 1; i < module.items.size(); ++i)
      if (module.items[i].microbatch == module.items[i - 1].microbatch) of_module[i] = of_module[i - 1] + 1;
  }
  Labels labels(schedule);
  std::string names;
  for (uint32_t n = 0; n < schedule.shares.list.size(); ++n) {
    const Share& share = schedule.shares.list[n];
    const auto& module = schedule.module_of(share);
    modules.push_back(uint32_t(share.module));
    units.push_back(uint32_t(share.unit));
    counts.push_back(share.count);
    for (uint32_t item : schedule.shares.items_of(share)) {
      microbatches.push_back(module.items[item].microbatch);
      numbers.push_back(within[share.module][item]);
      sizes.push_back(float(module.items[item].size));
    }
    if (share.count > 0) {
      auto op = module.kind == Module::encoder ? encoder_forward(n) : generate(n);
      names += labels.number(op);
    }
    names += '\n';
  }
  file.add("share_module", modules);
  file.add("share_unit", units);
  file.add("share_items", counts);
  file.add("item_microbatch", microbatches);
  file.add("item_number", numbers);
  file.add("item_size", sizes);
  file.add_text("share_label", names);
}

void add_path(ColumnFile& file, const std::vector<PathStep>& path, const Numbers& numbers,
              const Ticks& ticks) {
  std::vector<uint32_t> operators, gaps;
  std::vector<uint8_t> causes;
  for (const auto& step : path) {
    operators.push_back(numbers.of(step.rank, step.slice.op));
    gaps.push_back(ticks.length(step.gap));
    causes.push_back(uint8_t(step.cause));
  }
  file.add("path", operators);
  file.add("path_gap", gaps);
  file.add("path_cause", causes);
}

std::vector<uint32_t> add_waits(ColumnFile& file, const Explained& explained, const Numbers& numbers,
                                const Ticks& ticks) {
  std::vector<uint32_t> begin{0}, starts, lengths, nexts, inputs, culprits, culprit_times;
  std::vector<uint8_t> kinds;
  const auto& model = explained.model;
  for (const auto& of_rank : explained.waits) {
    for (const auto& wait : of_rank) {
      starts.push_back(ticks.length(wait.start));
      lengths.push_back(ticks.length(wait.length()));
      kinds.push_back(uint8_t(wait.kind));
      nexts.push_back(numbers.behind(model, wait.next));
      inputs.push_back(numbers.behind(model, wait.input));
      culprits.push_back(numbers.behind(model, wait.culprit));
      culprit_times.push_back(ticks.length(wait.culprit_time));
    }
    begin.push_back(uint32_t(starts.size()));
  }
  file.add("wait_start", starts);
  file.add("wait_length", lengths);
  file.add("wait_kind", kinds);
  file.add("wait_next", nexts);
  file.add("wait_input", inputs);
  file.add("wait_culprit", culprits);
  file.add("wait_culprit_time", culprit_times);
  return begin;
}

std::vector<uint32_t> add_intervals(ColumnFile& file, const Timeline& timeline, const Ticks& ticks) {
  std::vector<uint32_t> begin{0}, starts, lengths;
  std::vector<int32_t> peers;
  std::vector<uint8_t> kinds;
  for (const auto& row : timeline.rows) {
    for (const auto& interval : row.intervals) {
      starts.push_back(ticks.of(interval.start));
      lengths.push_back(ticks.length(interval.end - interval.start));
      kinds.push_back(uint8_t(interval.spent));
      peers.push_back(interval.peer);
    }
    begin.push_back(uint32_t(starts.size()));
  }
  file.add("interval_start", starts);
  file.add("interval_length", lengths);
  file.add("interval_kind", kinds);
  file.add("interval_peer", peers);
  return begin;
}

std::vector<uint32_t> add_memory(ColumnFile& file, const Recording& recording, const Ticks& ticks) {
  std::vector<uint32_t> begin{0}, times;
  std::vector<float> bytes;
  size_t most = kMostMemoryPoints / std::max<size_t>(1, recording.memory.size());
  for (const auto& curve : recording.memory) {
    auto thinned = thin(curve, most);
    uint32_t before = 0;
    for (size_t i = 0; i < thinned.times.size(); ++i) {
      uint32_t at = std::max(ticks.of(thinned.times[i]), before);
      times.push_back(at - before);
      before = at;
      bytes.push_back(float(thinned.bytes[i]));
    }
    begin.push_back(uint32_t(times.size()));
  }
  file.add("memory_time", times);
  file.add("memory_bytes", bytes);
  return begin;
}

}  // namespace

std::string to_columns(const Recording& recording) {
  const auto& schedule = recording.schedule;
  const auto& timeline = recording.timeline;
  Ticks ticks(timeline);
  Numbers numbers(schedule, timeline);
  auto path = critical_path(schedule, timeline);
  auto explained = explain(recording, kMostWaits);
  auto facts = facts_of(recording, explained.sentences);
  facts["per_unit"] = ticks.per_unit;
  ColumnFile file;
  add_operators(file, timeline, ticks);
  add_needs(file, timeline, numbers);
  add_shares(file, schedule);
  add_path(file, path, numbers, ticks);
  facts["waits"] = add_waits(file, explained, numbers, ticks);
  facts["intervals"] = add_intervals(file, timeline, ticks);
  facts["memory"] = add_memory(file, recording, ticks);
  return file.finish(std::move(facts));
}

}  // namespace bigmac
