#include "bigmac/simulate/holdings.h"

#include <cmath>

#include "bigmac/common/error.h"

namespace bigmac {
namespace {

double checked(const char* what, double value) {
  if (!std::isfinite(value) || value < 0)
    throw InvalidInput(concat("[memory] ", what, " must be a finite number of at least 0, got ", value));
  return value;
}

std::vector<double> by_stage(const char* what, const std::vector<double>& values, int64_t stages) {
  if (values.size() != 1 && int64_t(values.size()) != stages)
    throw InvalidInput(concat("[memory] ", what, " needs 1 value or one for each of ", stages,
                              " stages, got ", values.size()));
  for (double value : values) checked(what, value);
  return values.size() == 1 ? std::vector<double>(size_t(stages), values[0]) : values;
}

std::vector<double> by_module(const char* what, const std::vector<double>& values, size_t modules) {
  if (values.size() > 1 && values.size() != modules)
    throw InvalidInput(concat("[memory] ", what, " needs 1 value or one for each of ", modules,
                              " encoders and generators, or none, got ", values.size()));
  for (double value : values) checked(what, value);
  if (values.size() == modules) return values;
  return std::vector<double>(modules, values.empty() ? 0 : values[0]);
}

std::vector<double> constants(const std::vector<std::vector<Holder>>& lists, size_t ranks) {
  if (lists.size() > 1 && lists.size() != ranks)
    throw InvalidInput(concat("[memory] constant holders need 1 list or one for each of ", ranks,
                              " ranks, or none, got ", lists.size()));
  std::vector<double> sums;
  for (const auto& list : lists) {
    sums.push_back(0);
    for (const auto& holder : list) sums.back() += checked(holder.what.c_str(), holder.bytes);
  }
  if (sums.size() == ranks) return sums;
  return std::vector<double>(ranks, sums.empty() ? 0 : sums[0]);
}

void check_row(const Schedule& schedule, const Timeline& timeline, int rank) {
  auto row = schedule.row(rank);
  const auto& slices = timeline.rows[rank].operators;
  auto place = [&](size_t p) {
    return concat("[memory] the timeline of rank ", rank, ", position ", p, ": ");
  };
  double time = timeline.start;
  for (size_t p = 0; p < std::min(row.size(), slices.size()); ++p) {
    if (slices[p].op != row[p])
      throw InvalidInput(
          concat(place(p), "ran ", long_name(slices[p].op), " where the schedule has ", long_name(row[p])));
    if (!(slices[p].start >= time && slices[p].end >= slices[p].start))
      throw InvalidInput(concat(place(p), long_name(row[p]), " ran from ", slices[p].start, " to ",
                                slices[p].end, ", after ", time));
    time = slices[p].end;
  }
  if (row.size() != slices.size())
    throw InvalidInput(concat("[memory] the timeline of rank ", rank, " has ", slices.size(),
                              " operators, the schedule has ", row.size()));
}

}  // namespace

void Holdings::refuse_missing(int64_t id) const {
  auto [rank, op] = dependencies_.at(id);
  throw InvalidInput(concat("[memory] the schedule of rank ", rank, " misses ", long_name(op)));
}

Holdings::Holdings(const Schedule& schedule, const Timeline& timeline, const Bytes& bytes)
    : schedule_(schedule), timeline_(timeline), dependencies_(schedule) {
  const Step& step = schedule.step;
  auto ranks = size_t(schedule.ranks());
  if (timeline.rows.size() != ranks)
    throw InvalidInput(
        concat("[memory] the timeline has ", timeline.rows.size(), " ranks, the schedule has ", ranks));
  constant_ = constants(bytes.constant, ranks);
  stage_ = by_stage("a stage's activations", bytes.stage, step.stages());
  stage_work_ = by_stage("what a stage's backward needs more", bytes.stage_work, step.stages());
  forward_work_ = by_stage("what a stage's forward needs more", bytes.forward_work, step.stages());
  boundary_ = checked("what goes between stages", bytes.boundary);
  auto item = by_module("an item's activations", bytes.item, step.modules.size());
  auto work = by_module("what an item's backward needs more", bytes.item_work, step.modules.size());
  auto out = by_module("what an item hands over", bytes.item_out, step.modules.size());
  ends_.assign(size_t(dependencies_.count()), 0.0);
  positions_.assign(size_t(dependencies_.count()), -1);
  for (int rank = 0; rank < schedule.ranks(); ++rank) {
    check_row(schedule, timeline, rank);
    int32_t position = 0;
    for (const auto& slice : timeline.rows[rank].operators) {
      int64_t id = dependencies_.of(rank, slice.op);
      ends_[id] = slice.end;
      positions_[id] = position++;
    }
  }
  bool hands_over = std::any_of(out.begin(), out.end(), [](double value) { return value > 0; });
  for (size_t i = 0; i < schedule.shares.list.size(); ++i) {
    const Share& share = schedule.shares.list[i];
    const auto& items = schedule.module_of(share).items;
    double size = 0;
    if (hands_over) part_begin_.push_back(int64_t(parts_.size()));
    int64_t before = -1;
    for (uint32_t number : schedule.shares.items_of(share)) {
      size += items[number].size;
      if (!hands_over) continue;
      if (items[number].microbatch != before) parts_.push_back({});
      before = items[number].microbatch;
      parts_.back().bytes += items[number].size * out[size_t(share.module)];
      ++parts_.back().items;
    }
    item_.push_back(size * item[size_t(share.module)]);
    item_work_.push_back(size * work[size_t(share.module)]);
  }
}

}  // namespace bigmac
