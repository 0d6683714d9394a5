#include "apps/bigmac/plan_json_text.h"

#include <nlohmann/json.hpp>

#include "bigmac/plan/plan_json.h"

namespace bigmac {

using Json = nlohmann::ordered_json;

namespace {

Json json_of(const StepParts& parts) {
  return {{"backbone", parts.backbone}, {"recompute", parts.recompute}, {"traffic", parts.traffic},
          {"modules", parts.modules},   {"bubble", parts.bubble},       {"transfer", parts.transfer},
          {"order", parts.order},       {"sync", parts.sync},           {"optimizer", parts.optimizer}};
}

Json json_of(const Choice& choice, const Workload& workload) {
  Json json{{"choice", choice.name}, {"value", choice.value}, {"others", Json::array()}};
  for (const auto& other : choice.others) {
    Json one{{"value", other.value}};
    if (other.outcome) one["outcome"] = bigmac::json_of(*other.outcome, workload);
    if (!other.why_not.empty()) one["why_not"] = other.why_not;
    json["others"].push_back(std::move(one));
  }
  return json;
}

}  // namespace

std::string line_of(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string to_json(const PlanReport& report) {
  Json json = json_of(report.plan, report.workload);
  json["search_seconds"] = report.seconds;
  if (report.plan.best.empty()) return line_of(json);
  Json explain{{"seconds", json_of(report.parts)},
               {"fullest_rank", report.fullest.rank},
               {"holders", Json::array()},
               {"choices", Json::array()}};
  for (const auto& holder : report.fullest.holders)
    explain["holders"].push_back({{"what", holder.what}, {"bytes", holder.bytes}});
  for (const auto& choice : report.choices) explain["choices"].push_back(json_of(choice, report.workload));
  json["explain"] = std::move(explain);
  return line_of(json);
}

}  // namespace bigmac
