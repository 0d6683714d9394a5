#include <benchmark/benchmark.h>

#include "bigmac/schedule/make.h"
#include "bigmac/simulate/links.h"
#include "bigmac/simulate/memory.h"
#include "bigmac/simulate/simulate.h"

// On one core. items_per_second is operators a second, or configurations a second where the name says so.
namespace bigmac {
namespace {

const Costs kCosts{.modules = {{0.5, 1}}};
const Bytes kBytes{.constant = {{{"parameters", 8e9}, {"optimizer states", 4e9}}},
                   .stage = {1e9},
                   .stage_work = {2e8},
                   .item = {3e8},
                   .item_out = {1e7},
                   .boundary = 5e7};

Links links_of(Exchange exchange) {
  return {.exchange = exchange,
          .inside = {0.01, 1e-10},
          .between = {0.02, 1e-9},
          .node_of_rank = {0, 0, 0, 0, 1, 1, 1, 1},
          .stage_bytes = 5e7,
          .item_bytes = {1e7}};
}

Step step_of(Base base, int64_t chunks, int64_t microbatches, bool encoder = false) {
  Step step;
  step.ranks = 8;
  step.chunks = chunks;
  step.microbatches = microbatches;
  step.base = base;
  if (!encoder) return step;
  step.arrangement = Arrangement::nested;
  step.modules = {one_item_each("image", Module::encoder, microbatches)};
  return step;
}

void count_operators(benchmark::State& state, const Schedule& schedule) {
  auto operators = int64_t(schedule.operators.size());
  state.SetItemsProcessed(state.iterations() * operators);
  state.counters["operators"] = double(operators);
}

// A table made, simulated and its memory reckoned.
void configuration(benchmark::State& state, Base base, int64_t chunks, bool encoder, Exchange exchange) {
  Step step = step_of(base, chunks, 64, encoder);
  Links links = links_of(exchange);
  for (auto _ : state) {
    Schedule schedule = make_schedule(step, kCosts);
    Timeline timeline = simulate(schedule, kCosts, links);
    benchmark::DoNotOptimize(peak_memory(schedule, timeline, kBytes).front().peak);
  }
  state.SetItemsProcessed(state.iterations());
}
void making(benchmark::State& state, Base base, int64_t chunks, bool encoder) {
  Step step = step_of(base, chunks, 64, encoder);
  for (auto _ : state) benchmark::DoNotOptimize(make_schedule(step, kCosts).operators.data());
  state.SetItemsProcessed(state.iterations());
}
#define BIGMAC_CONFIGURATION(name, base, chunks, encoder)                                      \
  BENCHMARK_CAPTURE(configuration, name, base, chunks, encoder, Exchange::overlapped)          \
      ->Name("configurations of " #name " P=8 M=64")                                           \
      ->Unit(benchmark::kMicrosecond);                                                         \
  BENCHMARK_CAPTURE(configuration, name##_in_order, base, chunks, encoder, Exchange::in_order) \
      ->Name("configurations of " #name " P=8 M=64, in order")                                 \
      ->Unit(benchmark::kMicrosecond);                                                         \
  BENCHMARK_CAPTURE(configuration, name##_batched, base, chunks, encoder, Exchange::batched)   \
      ->Name("configurations of " #name " P=8 M=64, batched")                                  \
      ->Unit(benchmark::kMicrosecond);                                                         \
  BENCHMARK_CAPTURE(making, name, base, chunks, encoder)                                       \
      ->Name("configurations of " #name " P=8 M=64, table alone")                              \
      ->Unit(benchmark::kMicrosecond)
BIGMAC_CONFIGURATION(one_f_one_b, Base::one_f_one_b, 1, false);
BIGMAC_CONFIGURATION(interleaved, Base::interleaved, 2, false);
BIGMAC_CONFIGURATION(nested, Base::one_f_one_b, 1, true);
BIGMAC_CONFIGURATION(nested_interleaved, Base::interleaved, 2, true);

// Long accumulations.
struct Long {
  Schedule schedule;
  Timeline timeline;

  Long(Base base, int64_t chunks, bool encoder)
      : schedule(make_schedule(step_of(base, chunks, 32768, encoder), kCosts)),
        timeline(simulate(schedule, kCosts)) {}
};
void simulation(benchmark::State& state, Base base, int64_t chunks, bool encoder) {
  Long of(base, chunks, encoder);
  for (auto _ : state) benchmark::DoNotOptimize(simulate(of.schedule, kCosts).end);
  count_operators(state, of.schedule);
}
void linked(benchmark::State& state, Base base, int64_t chunks, bool encoder) {
  Long of(base, chunks, encoder);
  Links links = links_of(Exchange::in_order);
  for (auto _ : state) benchmark::DoNotOptimize(simulate(of.schedule, kCosts, links).end);
  count_operators(state, of.schedule);
}
void memory(benchmark::State& state, Base base, int64_t chunks, bool encoder) {
  Long of(base, chunks, encoder);
  for (auto _ : state) benchmark::DoNotOptimize(peak_memory(of.schedule, of.timeline, kBytes).front().peak);
  count_operators(state, of.schedule);
}
#define BIGMAC_LONG(name, base, chunks, encoder)             \
  BENCHMARK_CAPTURE(simulation, name, base, chunks, encoder) \
      ->Name("simulate " #name " P=8 M=32768")               \
      ->Unit(benchmark::kMillisecond);                       \
  BENCHMARK_CAPTURE(linked, name, base, chunks, encoder)     \
      ->Name("simulate with links " #name " P=8 M=32768")    \
      ->Unit(benchmark::kMillisecond);                       \
  BENCHMARK_CAPTURE(memory, name, base, chunks, encoder)     \
      ->Name("peak memory " #name " P=8 M=32768")            \
      ->Unit(benchmark::kMillisecond)
BIGMAC_LONG(one_f_one_b, Base::one_f_one_b, 1, false);
BIGMAC_LONG(interleaved, Base::interleaved, 2, false);
BIGMAC_LONG(nested, Base::one_f_one_b, 1, true);

}  // namespace
}  // namespace bigmac
