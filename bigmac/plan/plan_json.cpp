#include "bigmac/plan/plan_json.h"

#include <nlohmann/json.hpp>

namespace bigmac {

using Json = nlohmann::ordered_json;

Json json_of(const Configuration& c, const Workload& workload) {
  const auto& p = c.parallel;
  Json json{{"schedule", name(c.arrangement)},
            {"base", name(c.base)},
            {"tensor", p.tensor},
            {"pipeline", p.pipeline},
            {"chunks", c.chunks},
            {"data", p.data},
            {"expert", p.expert},
            {"microbatch", c.microbatch}};
  if (c.warmup_units > 0) json["warmup_units"] = c.warmup_units;
  if (c.encoder_gpus > 0) json["encoder_gpus"] = c.encoder_gpus;
  if (c.encoder_tensor > 1) json["encoder_tensor"] = c.encoder_tensor;
  if (c.generator_gpus > 0) json["generator_gpus"] = c.generator_gpus;
  if (c.generator_tensor > 1) json["generator_tensor"] = c.generator_tensor;
  if (c.own_whole) json["own_sharded"] = false;
  json["recompute"] = {{workload.backbone.name, cost::name(c.recompute)}};
  for (size_t n = 0; n < c.module_recompute.size(); ++n)
    json["recompute"][workload.modules[n].name] = cost::name(c.module_recompute[n]);
  if (!c.layers.empty()) json["layers"] = c.layers;
  return json;
}

Json json_of(const Outcome& outcome, const Workload& workload) {
  return {{"configuration", json_of(outcome.configuration, workload)},
          {"microbatches", outcome.microbatches},
          {"step", outcome.step},
          {"pipeline", outcome.pipeline},
          {"sync", outcome.sync},
          {"optimizer", outcome.optimizer},
          {"bubble", outcome.bubble},
          {"transfer", outcome.transfer},
          {"order", outcome.order},
          {"memory", outcome.memory},
          {"memory_by_rank", outcome.memory_by_rank},
          {"fits", outcome.fits},
          {"tokens_per_second_per_gpu", outcome.tokens_per_second},
          {"mfu", outcome.mfu}};
}

namespace {

Json json_of(const std::vector<Outcome>& outcomes, const Workload& workload) {
  Json json = Json::array();
  for (const auto& outcome : outcomes) json.push_back(bigmac::json_of(outcome, workload));
  return json;
}

Json json_of(const SystemOutcome& system, const Workload& workload) {
  Json json{{"schedule", name(system.system)}};
  if (system.best) json["best"] = bigmac::json_of(*system.best, workload);
  if (system.least_memory) json["least_memory"] = bigmac::json_of(*system.least_memory, workload);
  if (!system.why_not.empty()) json["why_not"] = system.why_not;
  return json;
}

Json job_of(const Workload& workload) {
  return {{"workload", workload.name},
          {"gpus", workload.gpus},
          {"hardware", workload.hardware.name},
          {"memory_limit", workload.memory}};
}

}  // namespace

Json json_of(const Plan& plan, const Workload& workload) {
  Json json = job_of(workload);
  json["samples_per_gpu"] = plan.samples_per_gpu;
  json["candidates"] = plan.candidates;
  json["simulated"] = plan.simulated;
  json["best"] = json_of(plan.best, workload);
  json["frontier"] = json_of(plan.frontier, workload);
  json["refused"] = Json::object();
  for (const auto& [kind, refused] : plan.refused)
    json["refused"][kind] = {{"count", refused.count}, {"example", refused.example}};
  json["out_of_memory"] = {{"count", plan.out_of_memory.count}, {"example", plan.out_of_memory.example}};
  if (plan.least_memory) json["least_memory"] = json_of(*plan.least_memory, workload);
  if (!plan.out_of_memory_text.empty()) json["why_not"] = plan.out_of_memory_text;
  return json;
}

Json json_of(const Comparison& comparison, const Workload& workload) {
  Json json = job_of(workload);
  json["batches"] = Json::array();
  for (const auto& batch : comparison.batches) {
    Json systems = Json::array();
    for (const auto& system : batch.systems) systems.push_back(json_of(system, workload));
    json["batches"].push_back({{"samples_per_gpu", batch.samples_per_gpu}, {"systems", systems}});
  }
  return json;
}

}  // namespace bigmac
