#include "bigmac/view/facts.h"

#include "bigmac/schedule/dependencies.h"

namespace bigmac {
namespace {

using Json = nlohmann::ordered_json;

Json modules_of(const Step& step) {
  auto modules = Json::array();
  for (const auto& module : step.modules)
    modules.push_back({{"name", module.name}, {"kind", name(module.kind)}, {"trained", module.trained}});
  return modules;
}

Json stages_of(const Schedule& schedule) {
  Dependencies dependencies(schedule.step, {});
  auto stages = Json::array();
  for (int rank = 0; rank < schedule.ranks(); ++rank) {
    auto of_rank = Json::array();
    for (int64_t chunk = 0; chunk < std::max(schedule.step.chunks, int64_t{1}); ++chunk)
      of_rank.push_back(dependencies.stage(rank, chunk));
    stages.push_back(std::move(of_rank));
  }
  return stages;
}

Json rank_times_of(const Timeline& timeline) {
  auto times = Json::array();
  for (const auto& time : rank_times(timeline))
    times.push_back({{"busy", time.busy},
                     {"transfer", time.transfer},
                     {"order", time.order},
                     {"wait", time.wait},
                     {"idle", time.idle}});
  return times;
}

Json rows_of(const Timeline& timeline) {
  auto rows = Json::array({0});
  size_t count = 0;
  for (const auto& row : timeline.rows) rows.push_back(count += row.operators.size());
  return rows;
}

}  // namespace

Json facts_of(const Recording& recording, const std::vector<std::string>& findings) {
  const auto& step = recording.schedule.step;
  const auto& timeline = recording.timeline;
  bool whole = recording.missing.empty();
  auto recorded = whole ? Timeline{} : without_empty_rows(timeline);
  const auto& known = whole ? timeline : recorded;
  auto shares = time_shares(known);
  return {{"name", recording.name},
          {"measured", recording.measured},
          {"notes", recording.notes},
          {"ranks", timeline.rows.size()},
          {"chunks", step.chunks},
          {"microbatches", step.microbatches},
          {"base", name(step.base)},
          {"schedule", name(step.arrangement)},
          {"start", timeline.start},
          {"length", timeline.length()},
          {"modules", modules_of(step)},
          {"stages", stages_of(recording.schedule)},
          {"order", step.order},
          {"memory_limit", recording.memory_limit},
          {"shares",
           {{"busy", shares.busy},
            {"transfer", shares.transfer},
            {"order", shares.order},
            {"bubble", shares.bubble}}},
          {"idle_over_total", idle_over_total(known)},
          {"idle_over_busy", idle_over_busy(known)},
          {"rank_times", rank_times_of(timeline)},
          {"findings", findings},
          {"rows", rows_of(timeline)}};
}

}  // namespace bigmac
