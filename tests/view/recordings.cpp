#include "tests/view/recordings.h"

#include "bigmac/schedule/make.h"
#include "bigmac/simulate/links.h"
#include "bigmac/simulate/memory.h"
#include "bigmac/simulate/simulate.h"

namespace bigmac {
namespace {

Step small_step(Arrangement arrangement, int64_t chunks) {
  Step step;
  step.ranks = 4;
  step.chunks = chunks;
  step.microbatches = 8;
  step.base = chunks > 1 ? Base::interleaved : Base::one_f_one_b;
  step.arrangement = arrangement;
  NestedModule vision{.name = "vision", .kind = Module::encoder, .items = {}};
  for (uint32_t m = 0; m < 8; ++m)
    for (uint32_t n = 0; n <= m % 3; ++n) vision.items.push_back({m, 0.5 + 0.2 * n});
  step.modules = {vision, one_item_each("picture", Module::generator, 8)};
  return step;
}

Recording simulated(const std::string& name, const Step& step, const Costs& costs, const Links& links) {
  Recording recording;
  recording.name = name;
  recording.schedule = make_schedule(step, costs);
  recording.timeline = simulate(recording.schedule, costs, links);
  return recording;
}

const Links kLinks{.exchange = Exchange::batched, .inside = {0, 1}, .between = {0, 1}, .stage_bytes = 0.1};

}  // namespace

Recording nested_recording(const std::string& name) {
  Costs costs{.forward = {1}, .backward = {2}, .modules = {{0.5, 1}, {1, 2}}};
  return simulated(name, small_step(Arrangement::nested, 2), costs, kLinks);
}

Recording megatron_recording(const std::string& name) {
  Costs costs{.forward = {2}, .backward = {4}, .modules = {{4, 8}, {1, 2}}};
  return simulated(name, small_step(Arrangement::megatron, 1), costs, kLinks);
}

void add_memory(Recording& recording) {
  constexpr double kGib = 1 << 30;
  Bytes bytes{.constant = {{{"parameters", 20 * kGib}}}, .stage = {2 * kGib}, .item = {kGib}};
  for (int rank = 0; rank < recording.schedule.ranks(); ++rank) {
    MemoryCurve curve;
    for (const auto& point : memory_over_time(recording.schedule, recording.timeline, bytes, rank)) {
      curve.times.push_back(point.time);
      curve.bytes.push_back(point.bytes);
    }
    recording.memory.push_back(curve);
  }
  recording.memory_limit = 48 * kGib;
}

Recording million_recording() {
  Step step;
  step.ranks = 64;
  step.chunks = 2;
  step.microbatches = 4096;
  step.base = Base::interleaved;
  Costs costs;
  costs.forward.clear();
  costs.backward.clear();
  for (int stage = 0; stage < 128; ++stage) {
    costs.forward.push_back(1 + 0.0037 * (stage % 7));
    costs.backward.push_back(2 + 0.0071 * (stage % 5));
  }
  Recording recording;
  recording.name = "a million operators";
  recording.schedule = make_schedule(step, costs);
  recording.timeline = simulate(recording.schedule, costs);
  // As if measured: every time with digits of its own.
  uint64_t random = 1;
  for (auto& row : recording.timeline.rows)
    for (auto& slice : row.operators) {
      random = random * 6364136223846793005u + 1442695040888963407u;
      double share = double(random >> 40) / double(1 << 24);
      slice.end -= (slice.end - slice.start) * 0.05 * share;
    }
  return recording;
}

}  // namespace bigmac
