#include "bigmac/view/wait_kind.h"

#include <algorithm>
#include <array>

namespace bigmac {
namespace {

// Of a wait, what was spent so.
double spent_on(Spent spent, const Wait& wait, const Timeline::Row& row) {
  auto next = std::partition_point(row.intervals.begin(), row.intervals.end(),
                                   [&](const Interval& interval) { return interval.end <= wait.start; });
  double sum = 0;
  for (; next != row.intervals.end() && next->start < wait.end; ++next)
    if (next->spent == spent) sum += std::min(next->end, wait.end) - std::max(next->start, wait.start);
  return sum;
}

}  // namespace

std::string_view name(WaitKind kind) {
  constexpr std::array<std::string_view, kWaitKinds> kNames{
      "drain", "order", "transfer", "exchange", "host", "link", "encoder", "generator", "fill", "stage"};
  return kNames[size_t(kind)];
}

WaitKind kind_of(const Wait& wait, const Timeline::Row& row, double first_backward) {
  if (!wait.next) return WaitKind::drain;
  double half = wait.length() / 2;
  if (spent_on(Spent::order, wait, row) > half) return WaitKind::order;
  if (spent_on(Spent::transfer, wait, row) > half) return WaitKind::transfer;
  bool blocked = spent_on(Spent::wait, wait, row) > half;
  auto nothing_missing = blocked ? WaitKind::exchange : WaitKind::host;
  if (!wait.input) return nothing_missing;
  double arrived = std::max(wait.input->slice.end, wait.start);
  if (wait.end - arrived > half) return wait.input->slice.end > wait.start ? WaitKind::link : nothing_missing;
  const Operator& late = wait.culprit ? wait.culprit->slice.op : wait.input->slice.op;
  if (late.module == Module::encoder) return WaitKind::encoder;
  if (late.module == Module::generator) return WaitKind::generator;
  return late.phase == Phase::forward && wait.start < first_backward ? WaitKind::fill : WaitKind::stage;
}

}  // namespace bigmac
