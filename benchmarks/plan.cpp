#include <benchmark/benchmark.h>

#include "bigmac/plan/estimator.h"
#include "bigmac/plan/search.h"
#include "bigmac/workload/read_workload.h"

// Workloads of workloads/. items_per_second is configurations a second on one core.
namespace bigmac {
namespace {

Workload workload_named(const char* name) {
  return read_workload(std::string(BIGMAC_SOURCE_DIR) + "/workloads/" + name + ".yaml");
}

// P=8 M=64: 16 replicas of 8 samples a GPU.
Configuration with_eight_ranks(const Workload& workload, Arrangement arrangement, Base base, int64_t chunks) {
  Configuration c;
  c.parallel = {.tensor = 1, .pipeline = 8, .data = workload.gpus / 8, .expert = 8};
  c.chunks = chunks;
  c.base = base;
  c.arrangement = arrangement;
  c.module_recompute.assign(workload.modules.size(), cost::Recompute::none);
  return c;
}

constexpr int64_t kSamples = 8;

void evaluation(benchmark::State& state, Arrangement arrangement, Base base, int64_t chunks, int64_t passes) {
  auto workload = workload_named("understanding");
  if (arrangement == Arrangement::llm_only) workload.modules.clear();
  workload.memory = 1e15;
  Estimator estimator(workload, kSamples);
  auto configuration = with_eight_ranks(workload, arrangement, base, chunks);
  for (auto _ : state) benchmark::DoNotOptimize(estimator.evaluate(configuration, passes).step);
  state.SetItemsProcessed(state.iterations());
  state.counters["M"] = double(microbatches_of(configuration, kSamples * workload.gpus));
}
#define BIGMAC_EVALUATION(name, arrangement, base, chunks, passes)       \
  BENCHMARK_CAPTURE(evaluation, name, arrangement, base, chunks, passes) \
      ->Name("evaluate " #name " P=8 M=64")                              \
      ->Unit(benchmark::kMicrosecond)
BIGMAC_EVALUATION(llm_only_1f1b, Arrangement::llm_only, Base::one_f_one_b, 1, 1);
BIGMAC_EVALUATION(llm_only_interleaved, Arrangement::llm_only, Base::interleaved, 2, 1);
BIGMAC_EVALUATION(nested_1f1b, Arrangement::nested, Base::one_f_one_b, 1, 1);
BIGMAC_EVALUATION(nested_interleaved, Arrangement::nested, Base::interleaved, 2, 1);
BIGMAC_EVALUATION(nested_fill_2_passes, Arrangement::nested_fill, Base::one_f_one_b, 1, 2);

void bounds(benchmark::State& state) {
  auto workload = workload_named("understanding");
  Estimator estimator(workload, kSamples);
  auto legal = candidates(workload, kSamples, workload.search).legal;
  for (auto _ : state)
    for (const auto& configuration : legal) benchmark::DoNotOptimize(estimator.least(configuration).step);
  state.SetItemsProcessed(state.iterations() * int64_t(legal.size()));
}
BENCHMARK(bounds)->Name("bounds of understanding.yaml")->Unit(benchmark::kMillisecond);

void searching(benchmark::State& state, const char* name) {
  auto workload = workload_named(name);
  Plan plan;
  for (auto _ : state)
    plan = search(workload, state.range(0), {.threads = int(state.range(1)), .progress = {}});
  state.counters["candidates"] = double(plan.candidates);
  state.counters["simulated"] = double(plan.simulated);
}
BENCHMARK_CAPTURE(searching, understanding, "understanding")
    ->Name("search understanding.yaml (samples a GPU/threads)")
    ->ArgsProduct({{1, 8}, {1, 2}})
    ->Unit(benchmark::kMillisecond)
    ->MeasureProcessCPUTime()
    ->UseRealTime()
    ->Iterations(1);
BENCHMARK_CAPTURE(searching, generation, "generation")
    ->Name("search generation.yaml (samples a GPU/threads)")
    ->ArgsProduct({{1, 8}, {2}})
    ->Unit(benchmark::kMillisecond)
    ->MeasureProcessCPUTime()
    ->UseRealTime()
    ->Iterations(1);
BENCHMARK_CAPTURE(searching, small, "small")
    ->Name("search small.yaml (samples a GPU/threads)")
    ->ArgsProduct({{4}, {1, 2}})
    ->Unit(benchmark::kMillisecond)
    ->MeasureProcessCPUTime()
    ->UseRealTime();

}  // namespace
}  // namespace bigmac
