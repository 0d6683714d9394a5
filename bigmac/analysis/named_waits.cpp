#include "bigmac/analysis/named_waits.h"

#include <algorithm>
#include <array>

#include "bigmac/analysis/judge.h"

namespace bigmac {
namespace {

WaitKind late_module(Module module) {
  return module == Module::encoder     ? WaitKind::encoder
         : module == Module::generator ? WaitKind::generator
                                       : WaitKind::stage;
}

WaitKind kind_of(const StepModel& model, const NamedWait& wait, const Ramp& ramp) {
  if (wait.next < 0) return WaitKind::drain;
  auto i = size_t(wait.next);
  if (!model.is_whole && model.lacks_input[i] != 0) return late_module(Module(model.lacks_input[i] - 1));
  auto parts = parts_of(model, i);
  double most = std::max({model.transfer[i], parts.order, parts.message, parts.late, parts.own});
  if (most == parts.late) {
    const Operator& late = model.slices[size_t(wait.culprit < 0 ? wait.input : wait.culprit)].op;
    bool fills =
        late.module == Module::backbone && late.phase == Phase::forward && wait.start < ramp.first_backward;
    return fills ? WaitKind::fill : late_module(late.module);
  }
  if (most == parts.order) return WaitKind::order;
  if (most == model.transfer[i]) return WaitKind::transfer;
  if (most == parts.message) return WaitKind::link;
  return model.blocked[i] > parts.own / 2 ? WaitKind::exchange : WaitKind::host;
}

}  // namespace

std::string_view name(WaitKind kind) {
  constexpr std::array<std::string_view, kWaitKinds> kNames{
      "drain", "order", "transfer", "exchange", "host", "link", "encoder", "generator", "fill", "stage"};
  return kNames[size_t(kind)];
}

std::vector<std::vector<NamedWait>> named_waits(const StepModel& model, size_t most) {
  constexpr double kSameMoment = 1e-9;  // of the step
  std::vector<std::vector<NamedWait>> waits(static_cast<size_t>(model.ranks));
  double length = recorded_length(model), least = kSameMoment * length;
  auto add = [&](int rank, double free, double start, int32_t next) {
    if (start - free > least) waits[size_t(rank)].push_back({.start = free, .end = start, .next = next});
  };
  for (size_t i = 0; i < model.count(); ++i)
    add(model.rank[i], model.free_at(i), model.slices[i].start, int32_t(i));
  auto ramps = ramps_of(model, length);
  for (int rank = 0; rank < model.ranks; ++rank) {
    int32_t last = model.row_last[size_t(rank)];
    add(rank, last < 0 ? 0 : model.slices[size_t(last)].end, length, -1);
    auto& of_rank = waits[size_t(rank)];
    size_t kept = std::min(of_rank.size(), std::max<size_t>(1, most / size_t(model.ranks)));
    std::nth_element(of_rank.begin(), of_rank.begin() + std::ptrdiff_t(kept), of_rank.end(),
                     [](const auto& a, const auto& b) { return a.length() > b.length(); });
    of_rank.resize(kept);
    std::sort(of_rank.begin(), of_rank.end(), [](const auto& a, const auto& b) { return a.start < b.start; });
    for (auto& wait : of_rank) {
      if (wait.next >= 0) {
        auto i = size_t(wait.next);
        wait.input = model.last_input[i];
        auto culprit = culprit_of(model, i, wait.start);
        wait.culprit = culprit.at;
        wait.culprit_time = culprit.time;
      }
      wait.kind = kind_of(model, wait, ramps[size_t(rank)]);
    }
  }
  return waits;
}

}  // namespace bigmac
