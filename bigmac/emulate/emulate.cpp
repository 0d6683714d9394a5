#include "bigmac/emulate/emulate.h"

#include <algorithm>

#include "bigmac/runtime/align_clocks.h"
#include "bigmac/runtime/executor.h"
#include "bigmac/runtime/gather.h"

namespace bigmac {
namespace {

constexpr int kRounds = 16;

}  // namespace

std::vector<Timeline> emulate(const Schedule& schedule, const Emulation& emulation, Transport& transport,
                              int64_t steps) {
  EmulatedModel model(schedule, emulation, transport.rank());
  auto idle = emulation;
  idle.seconds = 0;
  EmulatedModel warm(schedule, idle, transport.rank());
  Executor executor(schedule, transport);
  executor.run(warm);
  ClockAligner clocks;
  clocks.exchange(transport, kRounds);
  std::vector<Timeline> timelines;
  for (int64_t step = 0; step < steps; ++step) {
    transport.barrier();
    double began = now();
    auto result = executor.run(model);
    double ended = now();
    timelines.push_back(
        gather_step(transport, {std::move(result.record), began, ended, clocks.fit()}).timeline);
  }
  return timelines;
}

const Timeline& median_of(const std::vector<Timeline>& timelines) {
  std::vector<const Timeline*> sorted;
  for (const auto& timeline : timelines) sorted.push_back(&timeline);
  std::sort(sorted.begin(), sorted.end(),
            [](const auto* a, const auto* b) { return a->length() < b->length(); });
  return *sorted.at((sorted.size() - 1) / 2);
}

}  // namespace bigmac
