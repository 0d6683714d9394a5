#include "bigmac/plan/configuration.h"

#include <algorithm>

#include "bigmac/common/error.h"

namespace bigmac {
namespace {

using cost::Recompute;

bool has_experts(const cost::Model& model) {
  for (const auto& layer : model.layers)
    for (const auto& part : layer.parts)
      if (part.experts > 0) return true;
  return false;
}

std::optional<Refusal> sizes(const Configuration& c, const Workload& workload) {
  const auto& p = c.parallel;
  std::pair<const char*, int64_t> counts[] = {
      {"tensor parallel", p.tensor},     {"pipeline parallel", p.pipeline},
      {"data parallel", p.data},         {"expert parallel", p.expert},
      {"chunks a rank (VPP)", c.chunks}, {"samples a microbatch", c.microbatch}};
  for (auto [what, count] : counts)
    if (count < 1) return Refusal{"sizes", concat(what, " must be at least 1, got ", count)};
  if (c.gpus() == workload.gpus) return {};
  auto own = c.encoder_gpus + c.generator_gpus;
  return Refusal{"GPUs do not divide",
                 concat("TP ", p.tensor, " * PP ", p.pipeline, " * DP ", p.data,
                        own > 0 ? concat(" + ", own, " of encoders and generators") : std::string(), " = ",
                        c.gpus(), " GPUs, the cluster has ", workload.gpus)};
}

// Tensor parallelism stays inside a node and cuts every module that runs on the backbone's ranks.
std::optional<Refusal> cuts(const Configuration& c, const Workload& workload) {
  int64_t tensor = c.parallel.tensor, node = workload.hardware.gpus_per_node;
  if (tensor > node || node % tensor != 0)
    return Refusal{"tensor parallel",
                   concat("TP ", tensor, " does not stay inside a node of ", node, " GPUs")};
  auto fits = [](const WorkloadModule& module, const cost::Parallel& parallel) -> std::optional<Refusal> {
    try {
      check(parallel);
      check_fits(module.model.layers, parallel);
      return {};
    } catch (const InvalidInput& error) {
      return Refusal{"layers do not divide", concat("'", module.name, "': ", error.what())};
    }
  };
  if (auto found = fits(workload.backbone, c.parallel)) return found;
  for (const auto& module : workload.modules)
    if (auto found = fits(module, {.tensor = module_tensor(c, module.kind)})) return found;
  return {};
}

std::optional<Refusal> experts(const Configuration& c, const Workload& workload) {
  if (c.parallel.expert == 1 || has_experts(workload.backbone.model)) return {};
  return Refusal{"expert parallel", concat("EP ", c.parallel.expert, ": '", workload.backbone.name,
                                           "' has no experts; take EP 1")};
}

std::optional<Refusal> batch(const Configuration& c, int64_t global_batch) {
  if (microbatches_of(c, global_batch) > 0) return {};
  return Refusal{
      "batch does not divide",
      concat("a global batch of ", global_batch, " samples does not divide by DP ", c.parallel.data, " * ",
             c.microbatch, " samples a microbatch = ", c.parallel.data * c.microbatch)};
}

std::optional<Refusal> stages(const Configuration& c, const Workload& workload) {
  auto layers = int64_t(workload.backbone.model.layers.size());
  bool own_stage = c.arrangement == Arrangement::megatron;  // of the encoder, of the generator
  int64_t most = layers + (own_stage ? int64_t(workload.modules.size()) : 0);
  if (c.layers.empty() && c.stages() > most)
    return Refusal{"more stages than layers",
                   concat("PP ", c.parallel.pipeline, " * VPP ", c.chunks, " = ", c.stages(), " stages, '",
                          workload.backbone.name, "' has ", layers, " layers with its embedding and head")};
  try {
    if (!c.layers.empty()) cost::check_split(c.layers, layers, c.stages());
  } catch (const InvalidInput& error) {
    return Refusal{"split", error.what()};
  }
  return {};
}

std::optional<Refusal> base(const Configuration& c) {
  Step step;
  step.ranks = c.parallel.pipeline;
  step.chunks = c.chunks;
  step.base = c.base;
  try {
    check_step(step);
  } catch (const InvalidInput& error) {
    return Refusal{"base", error.what()};
  }
  return {};
}

// Ranks of a module beside the replicas of the backbone: several for each, or one for several.
std::optional<Refusal> own_gpus(const char* what, int64_t gpus, int64_t tensor, bool needed,
                                const Configuration& c, const Workload& workload) {
  if ((gpus > 0) != needed)
    return Refusal{"disttrain", concat("disttrain needs GPUs for each kind of module and no other: ", gpus,
                                       " are ", what, "s'")};
  int64_t node = workload.hardware.gpus_per_node;
  if (workload.gpus > node && gpus % node != 0)
    return Refusal{"disttrain", concat(gpus, " ", what, " GPUs are not whole nodes of ", node)};
  if (needed && gpus % c.parallel.data != 0 && c.parallel.data % gpus != 0)
    return Refusal{"disttrain",
                   concat(gpus, " ", what, " GPUs neither divide by DP ", c.parallel.data, " nor divide it")};
  if (tensor < 1 || (tensor > 1 && gpus % (c.parallel.data * tensor) != 0) || node % tensor != 0)
    return Refusal{"disttrain", concat(gpus, " ", what, " GPUs do not divide by DP ", c.parallel.data,
                                       " * TP ", tensor, " of their own, inside nodes of ", node)};
  return {};
}

std::optional<Refusal> arrangement(const Configuration& c, const Workload& workload) {
  if ((c.arrangement == Arrangement::llm_only) != workload.modules.empty())
    return Refusal{
        "arrangement",
        workload.modules.empty()
            ? concat("a workload without encoders and generators is llm-only, got ", name(c.arrangement))
            : std::string("llm-only leaves out the workload's encoders and generators")};
  if (!workload.modules.empty() && c.module_recompute.size() != workload.modules.size())
    return Refusal{"recompute", concat("recompute levels are given for ", c.module_recompute.size(), " of ",
                                       workload.modules.size(), " encoders and generators")};
  if (c.arrangement != Arrangement::disttrain) {
    if (c.encoder_gpus + c.generator_gpus > 0)
      return Refusal{"disttrain",
                     concat(name(c.arrangement), " has no GPUs of encoders' or generators' own")};
    return {};
  }
  if (c.base != Base::one_f_one_b || c.chunks != 1)
    return Refusal{"base", concat("disttrain has one 1f1b through all modules with VPP 1, got ", name(c.base),
                                  " VPP ", c.chunks)};
  auto has = [&](Module kind) {
    return std::any_of(workload.modules.begin(), workload.modules.end(),
                       [&](const auto& module) { return module.kind == kind; });
  };
  if (auto found = own_gpus("encoder", c.encoder_gpus, c.encoder_tensor, has(Module::encoder), c, workload))
    return found;
  if (auto found =
          own_gpus("generator", c.generator_gpus, c.generator_tensor, has(Module::generator), c, workload))
    return found;
  return {};
}

// Sharded modules are shared out over groups of the GPUs that hold them.
std::optional<Refusal> shards(const Configuration& c, const Workload& workload) {
  if (c.own_whole && c.arrangement != Arrangement::disttrain)
    return Refusal{"shards", concat(name(c.arrangement), " has no modules on GPUs of their own")};
  if (c.own_whole) return {};
  for (const auto& module : workload.modules) {
    int64_t gpus = module_gpus(c, module.kind);
    if (gpus % module.shard != 0)
      return Refusal{"shards", concat("'", module.name, "' is shared out over ", module.shard,
                                      " GPUs, which do not divide the ", gpus, " that hold it in ",
                                      name(c.arrangement))};
    int64_t tensor = module_tensor(c, module.kind);
    if (module.shard > tensor && module.shard % tensor != 0)
      return Refusal{"shards", concat("'", module.name, "' is shared out over ", module.shard,
                                      " GPUs, which its TP ", tensor, " does not divide")};
  }
  return {};
}

}  // namespace

std::string to_text(const Configuration& c, const Workload& workload) {
  const auto& p = c.parallel;
  auto text = concat(name(c.arrangement), " ", name(c.base), " TP", p.tensor, " PP", p.pipeline, " VPP",
                     c.chunks, " DP", p.data, " EP", p.expert, " MBS", c.microbatch);
  if (c.warmup_units > 0) text += concat(" W", c.warmup_units);
  auto own = [](int64_t gpus, int64_t tensor, const char* what) {
    if (gpus == 0) return std::string();
    return concat(", ", gpus, " ", what, " GPUs", tensor > 1 ? concat(" TP", tensor) : std::string());
  };
  text += own(c.encoder_gpus, c.encoder_tensor, "encoder") +
          own(c.generator_gpus, c.generator_tensor, "generator");
  if (c.own_whole) text += " not sharded";
  std::string recompute;
  auto add = [&](const std::string& module, Recompute level) {
    if (level != Recompute::none)
      recompute += concat(recompute.empty() ? ", recompute " : ", ", module, " ", name(level));
  };
  add(workload.backbone.name, c.recompute);
  for (size_t n = 0; n < c.module_recompute.size(); ++n) add(workload.modules[n].name, c.module_recompute[n]);
  return text + recompute;
}

int64_t module_gpus(const Configuration& c, Module kind) {
  if (c.arrangement == Arrangement::disttrain)
    return kind == Module::encoder ? c.encoder_gpus : c.generator_gpus;
  return c.arrangement == Arrangement::megatron ? c.parallel.tensor * c.parallel.data : c.parallel.gpus();
}

int64_t module_tensor(const Configuration& c, Module kind) {
  if (c.arrangement != Arrangement::disttrain) return c.parallel.tensor;
  return kind == Module::encoder ? c.encoder_tensor : c.generator_tensor;
}

int64_t microbatches_of(const Configuration& c, int64_t global_batch) {
  int64_t samples = c.parallel.data * c.microbatch;
  return samples > 0 && global_batch % samples == 0 ? global_batch / samples : 0;
}

std::optional<Refusal> refusal(const Configuration& c, const Workload& workload, int64_t global_batch) {
  if (auto found = sizes(c, workload)) return found;
  if (auto found = experts(c, workload)) return found;
  if (auto found = cuts(c, workload)) return found;
  if (auto found = batch(c, global_batch)) return found;
  if (auto found = arrangement(c, workload)) return found;
  if (auto found = shards(c, workload)) return found;
  if (auto found = base(c)) return found;
  return stages(c, workload);
}

}  // namespace bigmac
