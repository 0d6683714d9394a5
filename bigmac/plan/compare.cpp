#include "bigmac/plan/compare.h"

#include <algorithm>

#include "bigmac/common/error.h"

namespace bigmac {
namespace {

constexpr int64_t kBest = 8;  // nested-fill is ranked by few passes, and then by all

SystemOutcome best_of(const Workload& workload, Arrangement system, int64_t samples_per_gpu, int threads) {
  SystemOutcome out{.system = system, .best = {}, .least_memory = {}, .is_legal = false, .why_not = {}};
  Workload restricted = workload;
  restricted.search.arrangements = {system};
  if (restricted.search.bases.empty()) restricted.search.bases = {Base::one_f_one_b, Base::interleaved};
  try {
    auto plan = search(restricted, samples_per_gpu,
                       {.best = kBest, .frontier = false, .threads = threads, .progress = {}});
    out.is_legal = true;
    if (!plan.best.empty()) out.best = plan.best.front();
    out.least_memory = plan.least_memory;
    if (!out.best)
      out.why_not = plan.out_of_memory_text.empty() ? "out of memory: " + plan.out_of_memory.example
                                                    : plan.out_of_memory_text;
  } catch (const InvalidInput& error) {
    out.why_not = error.what();
  }
  return out;
}

}  // namespace

Comparison compare(const Workload& workload, const std::vector<Arrangement>& systems,
                   const std::vector<int64_t>& samples_per_gpu, int threads,
                   const std::function<void(int64_t, int64_t)>& progress) {
  Comparison out{systems, {}};
  int64_t done = 0, total = int64_t(systems.size() * samples_per_gpu.size());
  for (int64_t samples : samples_per_gpu) {
    ComparedBatch batch{samples, {}};
    for (Arrangement system : systems) {
      batch.systems.push_back(best_of(workload, system, samples, threads));
      if (progress) progress(++done, total);
    }
    out.batches.push_back(std::move(batch));
  }
  return out;
}

std::vector<Arrangement> compared_systems(const Workload& workload) {
  if (workload.modules.empty()) return {Arrangement::llm_only};
  std::vector<Arrangement> systems;
  const auto& wanted = workload.search.arrangements;
  for (Arrangement system : {Arrangement::megatron, Arrangement::disttrain, Arrangement::three_phase,
                             Arrangement::optimus, Arrangement::nested, Arrangement::nested_fill})
    if (wanted.empty() || std::find(wanted.begin(), wanted.end(), system) != wanted.end())
      systems.push_back(system);
  return systems;
}

}  // namespace bigmac
