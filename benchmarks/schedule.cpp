#include <benchmark/benchmark.h>

#include "bigmac/schedule/check.h"
#include "bigmac/schedule/nest.h"
#include "bigmac/simulate/simulate.h"

// items_per_second is operators a second, on one core.
namespace bigmac {
namespace {

const Costs kCosts{
    .encoder_forward = 0.5, .encoder_backward = 1, .generator_forward = 2, .generator_backward = 4};

Step nested_step(int64_t ranks, int64_t chunks, int64_t microbatches) {
  Step step;
  step.ranks = ranks;
  step.chunks = chunks;
  step.microbatches = microbatches;
  step.base = Base::interleaved;
  step.arrangement = Arrangement::nested;
  step.encoder.assign(size_t(microbatches), 1);
  step.generator.assign(size_t(microbatches), 1);
  return step;
}

void count_operators(benchmark::State& state, const Schedule& schedule) {
  auto operators = int64_t(schedule.operators.size());
  state.SetItemsProcessed(state.iterations() * operators);
  state.counters["operators"] = double(operators);
}

void generate_schedule(benchmark::State& state, const Step& step) {
  for (auto _ : state) benchmark::DoNotOptimize(make_schedule(step, kCosts).operators.data());
  count_operators(state, make_schedule(step, kCosts));
}

void base_table(benchmark::State& state) {
  Step step = nested_step(64, 4, 4096);
  step.arrangement = Arrangement::llm_only;
  generate_schedule(state, step);
}
BENCHMARK(base_table)->Name("base table P=64 V=4 M=4096")->Unit(benchmark::kMillisecond);

void nested_table(benchmark::State& state) {
  generate_schedule(state, nested_step(64, 4, 4096));
}
BENCHMARK(nested_table)->Name("nested table P=64 V=4 M=4096")->Unit(benchmark::kMillisecond);

void simulation(benchmark::State& state) {
  auto schedule = make_schedule(nested_step(64, 4, 4096), kCosts);
  for (auto _ : state) benchmark::DoNotOptimize(simulate(schedule, kCosts).end);
  count_operators(state, schedule);
}
BENCHMARK(simulation)->Name("simulate nested P=64 V=4 M=4096")->Unit(benchmark::kMillisecond);

void checking(benchmark::State& state, Sends sends) {
  auto schedule = make_schedule(nested_step(8, 2, 512), kCosts);
  for (auto _ : state) {
    auto problems = check(schedule, sends);
    if (!problems.empty()) state.SkipWithError(problems.front().c_str());
  }
  count_operators(state, schedule);
}
BENCHMARK_CAPTURE(checking, buffered, Sends::buffered)->Name("check buffered P=8 V=2 M=512");
BENCHMARK_CAPTURE(checking, blocking, Sends::blocking)->Name("check blocking P=8 V=2 M=512");

}  // namespace
}  // namespace bigmac
