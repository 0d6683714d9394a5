#include "bigmac/schedule/base.h"

#include <algorithm>

#include "bigmac/common/error.h"
#include "bigmac/schedule/orders.h"

namespace bigmac {
namespace {

Row order_of(const Step& step, int rank, int64_t microbatches, std::vector<int64_t>& overlapped) {
  switch (step.base) {
    case Base::gpipe:
      return gpipe_order(step, rank, microbatches);
    case Base::one_f_one_b:
    case Base::interleaved:
      return one_f_one_b_order(step, rank, microbatches);
    case Base::zb_h1:
      return zb_h1_order(step, rank, microbatches);
    case Base::zb_v:
      return zb_v_order(step, rank, microbatches);
    case Base::dualpipe_v:
      return dualpipe_v_order(step, rank, microbatches, overlapped);
    case Base::custom:
      break;
  }
  throw InvalidInput("[base] a custom base has no order of its own; it is read from a file");
}

// Takes out the microbatches that only filled the count up.
void take_out(Row& row, int64_t microbatches, std::vector<int64_t>& overlapped) {
  auto there = [&](const Operator& op) { return op.index < microbatches; };
  std::vector<int64_t> kept;
  size_t next = 0;
  int64_t at = 0;
  for (size_t p = 0; p < row.size(); ++p) {
    bool pair = next < overlapped.size() && overlapped[next] == int64_t(p);
    if (pair) ++next;
    if (pair && there(row[p]) && there(row[p + 1])) kept.push_back(at);
    at += there(row[p]);
  }
  std::erase_if(row, [&](const Operator& op) { return !there(op); });
  overlapped = std::move(kept);
}

Row delayed(const Row& row, int64_t extra) {
  std::vector<Operator> forwards, others;
  std::vector<int64_t> behind;  // forwards before each of the others
  for (const auto& op : row) {
    if (op.phase == Phase::forward) {
      forwards.push_back(op);
    } else {
      others.push_back(op);
      behind.push_back(int64_t(forwards.size()));
    }
  }
  Row out;
  out.reserve(row.size());
  size_t next = 0;
  for (size_t i = 0; i < others.size(); ++i) {
    size_t until = std::min(size_t(behind[i] + extra), forwards.size());
    while (next < until) out.push_back(forwards[next++]);
    out.push_back(others[i]);
  }
  out.insert(out.end(), forwards.begin() + int64_t(next), forwards.end());
  return out;
}

// `row` is the last rank's, in a loop.
int64_t generator_delay(const Step& step, const Row& row) {
  int64_t size = step.unit_size(Module::generator), units = step.microbatches / size + 1;
  // Forwards of the rank up to the last forward of each unit, and up to its first backward.
  std::vector<int64_t> made(size_t(units), 0), owed(size_t(units), INT64_MAX);
  int64_t forwards = 0;
  for (const auto& op : row) {
    if (op.phase == Phase::forward) ++forwards;
    if (op.chunk != step.chunks - 1 || op.index >= step.microbatches) continue;
    int64_t unit = op.index / size;
    if (op.phase == Phase::forward)
      made[unit] = std::max(made[unit], forwards);
    else if (gives_input_gradient(op.phase))
      owed[unit] = std::min(owed[unit], forwards);
  }
  int64_t delay = 0;
  for (int64_t u = 0; u < units; ++u)
    if (owed[u] != INT64_MAX) delay = std::max(delay, made[u] - owed[u] + 1);
  return delay;
}

}  // namespace

int64_t padded_microbatches(const Step& step) {
  int64_t count = step.microbatches;
  switch (step.base) {
    case Base::interleaved: {
      int64_t rest = std::max(count, step.ranks) % step.group_size();
      count = std::max(count, step.ranks);
      return rest > 0 && rest < step.ranks ? count - rest + step.ranks : count;
    }
    case Base::zb_v:
      return std::max(count, 2 * step.ranks - 1);
    case Base::dualpipe_v:
      return std::max(count, 2 * step.ranks);
    default:
      return count;
  }
}

Schedule base_table(const Step& step, Turn turn) {
  check_step(step);
  if (!step.stage_ranks.empty())
    throw InvalidInput(
        concat("[", name(step.base), "] places its stages itself; leave the stages' ranks out"));
  Schedule schedule{
      .step = step, .operators = {}, .row_begin = {0}, .shares = {}, .units = {}, .overlapped = {}};
  schedule.operators.reserve(size_t((step.splits_backward() ? 3 : 2) * step.stages() * step.microbatches));
  auto add = [&](const Row& row) {
    schedule.operators.insert(schedule.operators.end(), row.begin(), row.end());
    schedule.row_begin.push_back(int64_t(schedule.operators.size()));
  };
  bool waits = turn == Turn::behind_generator && step.base != Base::gpipe;
  if (waits && (step.base == Base::zb_v || step.base == Base::dualpipe_v)) {
    for (const auto& row : turn_behind_generator_order(step)) add(row);
    return schedule;
  }
  int64_t microbatches = padded_microbatches(step), delay = 0;
  std::vector<int64_t> overlapped;
  if (waits) delay = generator_delay(step, order_of(step, int(step.ranks) - 1, microbatches, overlapped));
  if (turn == Turn::behind_all_forwards) delay = microbatches * step.chunks;
  for (int rank = 0; rank < step.ranks; ++rank) {
    Row row = order_of(step, rank, microbatches, overlapped);
    if (delay > 0) {
      row = delayed(row, delay);
      overlapped.clear();
    }
    if (microbatches != step.microbatches) take_out(row, step.microbatches, overlapped);
    for (int64_t position : overlapped) schedule.overlapped.push_back(schedule.row_begin.back() + position);
    add(row);
  }
  return schedule;
}

}  // namespace bigmac
