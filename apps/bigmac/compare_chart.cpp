#include "apps/bigmac/compare_chart.h"

#include "bigmac/simulate/memory.h"

namespace bigmac {

Chart chart_of(const Comparison& comparison, const Workload& workload) {
  constexpr double kGiB = 1024.0 * 1024 * 1024;
  ChartPanel speed{.y_label = "tokens / s / GPU"}, memory{.y_label = "memory that it takes, GiB"};
  memory.limit = ChartLimit{workload.memory / kGiB, "limit " + bytes_text(workload.memory)};
  for (size_t n = 0; n < comparison.systems.size(); ++n) {
    std::string label(name(comparison.systems[n]));
    ChartSeries speeds{.name = label}, memories{.name = label};
    for (const auto& batch : comparison.batches) {
      const auto& system = batch.systems[n];
      auto x = double(batch.samples_per_gpu);
      const auto& held = system.best ? system.best : system.least_memory;
      if (system.best) speeds.points.push_back({x, system.best->tokens_per_second});
      if (held) memories.points.push_back({x, held->memory / kGiB});
      if (!system.best) speeds.marks.push_back({x, held ? "out of memory" : "not possible"});
      if (!held) memories.marks.push_back(speeds.marks.back());
    }
    speed.series.push_back(std::move(speeds));
    memory.series.push_back(std::move(memories));
  }
  return {.title = workload.name,
          .x_label = "samples a GPU",
          .log2_x = true,
          .panels = {std::move(speed), std::move(memory)}};
}

}  // namespace bigmac
