#include <benchmark/benchmark.h>

#include "bigmac/schedule/check.h"
#include "bigmac/schedule/make.h"
#include "bigmac/simulate/simulate.h"

// items_per_second is operators a second, on one core.
namespace bigmac {
namespace {

const Costs kCosts{.modules = {{0.5, 1}, {2, 4}}};

// P=64, V=4, M=4096, 4 images and one picture to generate a microbatch, of unequal sizes.
Step step_of(Arrangement arrangement) {
  Step step;
  step.ranks = 64;
  step.chunks = 4;
  step.microbatches = 4096;
  step.base = Base::interleaved;
  step.arrangement = arrangement;
  step.modules = {{"image", Module::encoder, {}},
                  one_item_each("picture", Module::generator, step.microbatches)};
  for (uint32_t m = 0; m < step.microbatches; ++m)
    for (uint32_t n = 0; n < 4; ++n)
      step.modules[0].items.push_back({m, double(1 + (m * 7 + n * 13) % 11) / 24});
  return step;
}

void count_operators(benchmark::State& state, const Schedule& schedule) {
  auto operators = int64_t(schedule.operators.size());
  state.SetItemsProcessed(state.iterations() * operators);
  state.counters["operators"] = double(operators);
}

void generation(benchmark::State& state, Arrangement arrangement) {
  Step step = step_of(arrangement);
  for (auto _ : state) benchmark::DoNotOptimize(make_schedule(step, kCosts).operators.data());
  count_operators(state, make_schedule(step, kCosts));
}
BENCHMARK_CAPTURE(generation, base, Arrangement::llm_only)
    ->Name("base table P=64 V=4 M=4096")
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(generation, nested, Arrangement::nested)
    ->Name("nested table P=64 V=4 M=4096")
    ->Unit(benchmark::kMillisecond);

void simulation(benchmark::State& state) {
  auto schedule = make_schedule(step_of(Arrangement::nested), kCosts);
  for (auto _ : state) benchmark::DoNotOptimize(simulate(schedule, kCosts).end);
  count_operators(state, schedule);
}
BENCHMARK(simulation)->Name("simulate nested P=64 V=4 M=4096")->Unit(benchmark::kMillisecond);

void checking(benchmark::State& state, Sends sends) {
  auto schedule = make_schedule(step_of(Arrangement::nested), kCosts);
  for (auto _ : state) {
    auto problems = check(schedule, sends);
    if (!problems.empty()) state.SkipWithError(problems.front().c_str());
  }
  count_operators(state, schedule);
}
BENCHMARK_CAPTURE(checking, buffered, Sends::buffered)
    ->Name("check nested, buffered sends P=64 V=4 M=4096")
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(checking, blocking, Sends::blocking)
    ->Name("check nested, blocking sends P=64 V=4 M=4096")
    ->Unit(benchmark::kMillisecond);

// Generation, check and simulation of nested-fill together, with 4 equal images a microbatch.
void filling(benchmark::State& state) {
  Step step = step_of(Arrangement::nested_fill);
  step.modules.pop_back();
  for (auto& item : step.modules[0].items) item.size = 1;
  Costs costs{.modules = {{32, 64}}};  // 0.5 and 1.0 of the backbone's forward a microbatch
  int64_t operators = 0;
  for (auto _ : state) {
    Schedule schedule = make_schedule(step, costs);
    if (!check(schedule).empty()) state.SkipWithError("the table is not right");
    benchmark::DoNotOptimize(simulate(schedule, costs).end);
    operators = int64_t(schedule.operators.size());
  }
  state.SetItemsProcessed(state.iterations() * operators);
  state.counters["operators"] = double(operators);
}
BENCHMARK(filling)
    ->Name("make, check and simulate nested-fill P=64 V=4 M=4096")
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace bigmac
