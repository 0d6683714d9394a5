#include "apps/bigmac/analysis_json.h"

#include <nlohmann/json.hpp>

namespace bigmac {
namespace {

using Json = nlohmann::ordered_json;

Json json_of(const Finding& finding) {
  Json json{{"fault", name(finding.fault)}, {"cost_of_step", finding.cost}, {"text", finding.text}};
  if (!finding.advice.empty()) json["advice"] = finding.advice;
  if (finding.rank >= 0) json["rank"] = finding.rank;
  if (finding.peer >= 0) json["peer"] = finding.peer;
  if (finding.stage >= 0) json["stage"] = finding.stage;
  if (finding.microbatch >= 0) json["microbatch"] = finding.microbatch;
  if (finding.item >= 0) json["item"] = finding.item;
  if (!finding.module.empty()) json["module"] = finding.module;
  if (finding.factor > 0) json["factor"] = finding.factor;
  return json;
}

template <class List, class Make>
Json array_of(const List& list, Make&& make) {
  auto array = Json::array();
  for (const auto& entry : list) array.push_back(make(entry));
  return array;
}

Json ranks_json(const Analysis& analysis) {
  auto list = Json::array();
  for (size_t r = 0; r < analysis.ranks.size(); ++r) {
    const auto& time = analysis.ranks[r];
    list.push_back({{"rank", r},
                    {"compute", time.busy},
                    {"transfer", time.transfer},
                    {"order", time.order},
                    {"wait", time.wait},
                    {"idle", time.idle}});
    if (analysis.whole) list.back()["path_of_step"] = analysis.path.ranks[r];
  }
  return list;
}

Json waits_json(const Analysis& analysis) {
  return array_of(analysis.waits, [](const WaitGroup& group) {
    Json longest{{"rank", group.rank}, {"start", group.start}, {"length", group.length}};
    if (!group.needs.empty()) longest["for"] = group.needs;
    return Json{{"cause", group.cause},
                {"of_all_ranks_time", group.share},
                {"count", group.count},
                {"longest", longest}};
  });
}

Json path_json(const PathSummary& path) {
  return {
      {"operators", path.operators},
      {"parts", array_of(path.parts,
                         [](const PathPart& part) {
                           return Json{{"what", part.what}, {"of_step", part.share}, {"count", part.count}};
                         })},
      {"longest", array_of(path.longest, [](const PathMember& member) {
         return Json{{"rank", member.rank},
                     {"operator", member.what},
                     {"start", member.start},
                     {"length", member.length}};
       })}};
}

Json times_json(const Spread& spread) {
  return {{"count", spread.count},
          {"mean", spread.mean},
          {"median", spread.median},
          {"p95", spread.p95},
          {"most", spread.most}};
}

Json costs_json(const Analysis& analysis) {
  return {
      {"stages",
       array_of(analysis.stages,
                [](const StageTimes& stage) {
                  Json json{{"stage", stage.stage}, {"rank", stage.rank}, {"operator", letter(stage.phase)}};
                  json.update(times_json(stage.spread));
                  return json;
                })},
      {"modules", array_of(analysis.modules, [](const ModuleTimes& module) {
         Json json{{"module", module.module}, {"operator", letter(module.phase)}};
         json.update(times_json(module.spread));
         return json;
       })}};
}

Json peaks_json(const Recording& recording, const Analysis& analysis) {
  return array_of(analysis.peaks, [&](const MemoryPeak& peak) {
    Json json{{"rank", peak.rank}, {"bytes", peak.bytes}};
    if (recording.memory_limit > 0) json["limit"] = recording.memory_limit;
    if (peak.time) json["time"] = *peak.time;
    if (!peak.at.empty()) json["operator"] = peak.at;
    json["chunks_in_flight"] = peak.in_flight;
    for (const auto& items : peak.items) json["items"][items.module] = items.count;
    return json;
  });
}

Json suggestions_json(const Suggestions& suggestions) {
  auto list = array_of(suggestions.list, [](const Suggestion& suggestion) {
    Json json{{"change", name(suggestion.change)},
              {"text", suggestion.text},
              {"step", suggestion.step},
              {"gain_of_step", suggestion.gain}};
    if (!suggestion.condition.empty()) json["condition"] = suggestion.condition;
    return json;
  });
  return {{"base", suggestions.base},    {"arrangement", suggestions.arrangement},
          {"own_step", suggestions.own}, {"latency", suggestions.latency},
          {"tried", suggestions.tried},  {"left_out", suggestions.left_out},
          {"list", std::move(list)}};
}

// What needs the whole step.
void add_explanation(const Analysis& analysis, Json& json) {
  const auto& causes = analysis.causes;
  const auto& gap = analysis.gap;
  json["step_shares"] = {{"operators", causes.operators},
                         {"warm_up_and_order", causes.ramp},
                         {"of_these_base", analysis.base_bubble},
                         {"ends", causes.ends}};
  json["findings"] = array_of(causes.findings, [](const Finding& finding) { return json_of(finding); });
  json["suggestions"] = suggestions_json(analysis.suggestions);
  json["critical_path"] = path_json(analysis.path);
  json["gap"] = {{"against", gap.against},           {"step", gap.step},           {"other", gap.other},
                 {"difference", gap.difference()},   {"operators", gap.operators}, {"links", gap.links},
                 {"between_operators", gap.between}, {"order", gap.order},         {"ends", gap.ends}};
}

}  // namespace

Json to_json(const Recording& recording, const Analysis& analysis) {
  const Step& step = recording.schedule.step;
  Json json{{"verdict", analysis.verdict},
            {"recording", recording.name},
            {"ranks", step.ranks},
            {"chunks", step.chunks},
            {"microbatches", step.microbatches},
            {"operators", recording.schedule.operators.size()},
            {"step", analysis.step},
            {"idle_over_total", analysis.idle_over_total},
            {"idle_over_busy", analysis.idle_over_busy},
            {"waits_recorded", analysis.waits_recorded},
            {"rank_times", ranks_json(analysis)},
            {"waits", waits_json(analysis)},
            {"costs", costs_json(analysis)}};
  if (analysis.unit_imbalance) json["unit_imbalance"] = *analysis.unit_imbalance;
  json["memory"] = peaks_json(recording, analysis);
  json["whole"] = analysis.whole;
  if (analysis.whole) add_explanation(analysis, json);
  json["notes"] = analysis.notes;
  return json;
}
}  // namespace bigmac
