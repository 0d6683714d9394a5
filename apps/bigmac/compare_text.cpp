#include "apps/bigmac/compare_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "apps/bigmac/outcome_table.h"
#include "apps/bigmac/plan_text.h"
#include "bigmac/common/error.h"

namespace bigmac {
namespace {

constexpr double kGiB = 1024.0 * 1024 * 1024;

std::string failed(const SystemOutcome& system) {
  return system.is_legal ? "OOM" : "none";
}

std::string speed_text(const SystemOutcome& system, const SystemOutcome& last) {
  if (!system.best) return failed(system);
  return last.best ? fmt::format("{:.2f}", system.best->step / last.best->step) : "-";
}

template <class Cell>
std::string over_batches(const Comparison& comparison, Cell cell) {
  Column systems{"samples a GPU", {}, true};
  for (auto system : comparison.systems) systems.cells.emplace_back(name(system));
  std::vector<Column> columns{systems};
  for (const auto& batch : comparison.batches) {
    columns.push_back({std::to_string(batch.samples_per_gpu), {}});
    for (const auto& system : batch.systems)
      columns.back().cells.push_back(cell(system, batch.systems.back()));
  }
  return side_by_side(columns);
}

// Lines of a reason in one: "out of memory on rank 0: 84.0 GiB of 80.0 GiB, ...: 38.4 GiB activations of
// stage 0".
std::string in_one_line(const std::string& text) {
  std::string out;
  for (char c : text) {
    if (c == '\n') {
      if (!out.empty() && out.back() != ':') out += ';';
      out += ' ';
    } else if (c != ' ' || out.empty() || out.back() != ' ') {
      out += c;
    }
  }
  out.erase(out.find_last_not_of("; ") + 1);
  return out;
}

std::string table_of(const ComparedBatch& batch, const Workload& workload) {
  const auto& last = batch.systems.back();
  OutcomeTable table(workload);
  Column speed{"speed-up", {}};
  std::string reasons;
  for (const auto& one : batch.systems) {
    if (one.best)
      table.add(*one.best);
    else if (one.least_memory)
      table.add(*one.least_memory, failed(one));
    else
      table.add_without(one.system, failed(one));
    speed.cells.push_back(one.best ? speed_text(one, last) : "");
    if (!one.best) reasons += concat(name(one.system), ": ", in_one_line(one.why_not), "\n");
  }
  return batch_text(batch.samples_per_gpu, workload) + "\n" + table.text({speed}) + reasons;
}

}  // namespace

bool any_fits(const Comparison& comparison) {
  return std::any_of(comparison.batches.begin(), comparison.batches.end(), [](const auto& batch) {
    return std::any_of(batch.systems.begin(), batch.systems.end(),
                       [](const auto& one) { return one.best.has_value(); });
  });
}

std::string to_text(const Comparison& comparison, const Workload& workload) {
  auto last = name(comparison.systems.back());
  auto text = fmt::format("{}\n\n", job_text(workload));
  if (comparison.batches.size() > 1) {
    text += fmt::format("speed-up of {} over each: the system's step over that of {}\n", last, last);
    text += over_batches(comparison, speed_text);
    text += "\npeak memory of the fullest GPU, GiB\n";
    text += over_batches(comparison, [](const auto& one, const auto&) {
      return one.best ? fmt::format("{:.1f}", one.best->memory / kGiB) : failed(one);
    });
    text += "\n";
  }
  for (size_t n = 0; n < comparison.batches.size(); ++n)
    text += concat(n == 0 ? "" : "\n", table_of(comparison.batches[n], workload));
  if (comparison.batches.size() == 1)
    text += fmt::format("\nspeed-up  of {}: the system's step over that of {}\n", last, last);
  return text;
}

}  // namespace bigmac
